# CHAP: one-way and mutual with the right secrets, and every wrong one refused.

. ./lib.sh
. ./iscsi_lib.sh

# chap VOLUME SECRET [MUTUAL-SECRET]
chap() {
    setting "$1" node.session.auth.authmethod CHAP
    setting "$1" node.session.auth.username "$CHAP_USER"
    setting "$1" node.session.auth.password "$2"
    [ -z "$3" ] && return
    setting "$1" node.session.auth.username_in "$CHAP_MUTUAL_USER"
    setting "$1" node.session.auth.password_in "$3"
}

start_iscsid
need discovery discover

check without-chap refused login chap
chap chap wrong-secret-1
check wrong-secret refused login chap
chap chap "$CHAP_SECRET"
if check one-way login chap; then
    check one-way/fio fio_verify "$disk" --bs=16k --size=1m
    check one-way/logout logout chap
fi

chap mutual "$CHAP_SECRET" wrong-secret-2
check wrong-mutual-secret refused login mutual
chap mutual "$CHAP_SECRET" "$CHAP_MUTUAL_SECRET"
if check mutual login mutual; then
    check mutual/fio fio_verify "$disk" --bs=16k --size=1m
    check mutual/logout logout mutual
fi
