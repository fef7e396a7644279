-- What regenerating a message took out of a thread. head is the one it made.
create table {schema}.taken_back (
    tenant    text        not null,
    thread    text        not null,
    head      bigint      not null,
    seq       bigint      not null,
    id        text        not null,
    run       text        not null,
    role      text        not null,
    agent     text        not null,
    checksum  text        not null,
    body      json        not null,
    stored_at timestamptz not null,
    primary key (tenant, thread, head, seq),
    foreign key (tenant, thread) references {schema}.threads (tenant, id) on delete cascade
);

alter table {schema}.turns
    add column state_after json,   -- the thread's; null of a turn of before this column
    add column taken_back  bigint; -- the head that took it out of the thread
