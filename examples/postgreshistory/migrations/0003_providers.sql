-- What context providers keep, {key: state}; null is nothing.
alter table {schema}.threads add column providers json;
alter table {schema}.turns add column providers_after json; -- the thread's; null of a turn of before this column
