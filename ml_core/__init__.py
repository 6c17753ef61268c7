"""postfit's numerical library: classical learning algorithms that return certificates and honest uncertainty."""

__version__ = "0.1.0"
