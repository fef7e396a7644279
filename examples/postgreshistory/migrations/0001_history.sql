create table {schema}.threads (
    tenant     text        not null,
    id         text        not null,
    title      text        not null default '',
    head       bigint      not null default 0,  -- moves with every commit to the log
    messages   bigint      not null default 0,  -- the length of the log
    turns      bigint      not null default 0,
    status     text        not null default '', -- how the last turn ended
    state      json,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp(),
    primary key (tenant, id)
);
create index threads_recent on {schema}.threads (tenant, updated_at desc, id desc);

create table {schema}.messages (
    tenant    text        not null,
    thread    text        not null,
    seq       bigint      not null, -- the position in the log, from 0
    id        text        not null,
    run       text        not null,
    role      text        not null,
    agent     text        not null,
    checksum  text        not null,
    body      json        not null,
    stored_at timestamptz not null default clock_timestamp(),
    primary key (tenant, thread, seq),
    unique (tenant, thread, id),
    foreign key (tenant, thread) references {schema}.threads (tenant, id) on delete cascade
);

create table {schema}.turns (
    tenant    text        not null,
    thread    text        not null,
    run       text        not null,
    turn      bigint      not null, -- from 1
    network   text        not null,
    messages  bigint      not null, -- the length of the log after it
    status    text        not null,
    error     json,
    usage     json        not null,
    results   json        not null, -- without their messages, with checksums
    stored_at timestamptz not null default clock_timestamp(),
    primary key (tenant, thread, run),
    unique (tenant, thread, turn),
    foreign key (tenant, thread) references {schema}.threads (tenant, id) on delete cascade
);

create table {schema}.artifacts (
    tenant text   not null,
    thread text   not null,
    turn   bigint not null,
    number bigint not null, -- within the turn, from 0
    name   text   not null,
    body   json   not null,
    primary key (tenant, thread, turn, number),
    foreign key (tenant, thread) references {schema}.threads (tenant, id) on delete cascade
);

create table {schema}.locks (
    tenant text        not null,
    thread text        not null,
    holder text        not null,
    until  timestamptz not null,
    primary key (tenant, thread)
);
