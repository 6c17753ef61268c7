#!/bin/sh
# Makes the secrets of the cluster once: deploy/{service,postgres,s3}.env. Keep them: models are signed with one of them.
set -eu
cd "$(dirname "$0")"
if [ -e service.env ]; then
    echo "deploy/service.env is there already; it is kept"
    exit 0
fi
umask 077
random() { od -An -N "$1" -tx1 /dev/urandom | tr -d ' \n'; }
password=$(random 24) access=$(random 10) secret=$(random 24)
printf 'POSTGRES_PASSWORD=%s\n' "$password" > postgres.env
printf 'AWS_ACCESS_KEY_ID=%s\nAWS_SECRET_ACCESS_KEY=%s\n' "$access" "$secret" > s3.env
{
    printf 'POSTFIT_DATABASE=postgresql+psycopg://postfit:%s@postgres:5432/postfit\n' "$password"
    printf 'POSTFIT_SECRET=%s\n' "$(random 32)"
    cat s3.env
} > service.env.part
mv service.env.part service.env
echo "made deploy/service.env, deploy/postgres.env and deploy/s3.env"
