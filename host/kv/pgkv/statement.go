package pgkv

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

// statements are the texts of the statements, with the name of the schema.
type statements struct {
	get, commit, lock, ensure, claim, outcome, version           string
	poll, notify, partitions, sweepLanes                         string
	beginErase, erase, floor, endErase, erasing, isErasing, salt string
	loadKeys, createKey, keyCheck                                string
	prove, status                                                string
	scan                                                         map[scanForm]string
}

// scanForm is what differs between the statements that scan.
type scanForm struct{ high, reverse bool }

func statementsOf(schema string) statements {
	in := func(s string) string {
		return strings.ReplaceAll(s, "{schema}", pgx.Identifier{schema}.Sanitize())
	}
	s := statements{
		get: in(getSQL), commit: in(commitSQL), lock: in(lockSQL), ensure: in(ensureSQL), claim: in(claimSQL),
		outcome: in(outcomeSQL), sweepLanes: in(sweepLanesSQL), version: in(versionSQL), poll: in(pollSQL), notify: in(notifySQL), partitions: in(partitionsSQL),
		beginErase: in(beginEraseSQL), erase: in(eraseSQL), floor: in(floorSQL), endErase: in(endEraseSQL),
		erasing: in(erasingSQL), isErasing: in(isErasingSQL), salt: in(saltSQL), loadKeys: in(loadKeysSQL), createKey: in(createKeySQL), keyCheck: in(keyCheckSQL), prove: in(proveSQL), status: in(statusSQL),
		scan: map[scanForm]string{},
	}
	for _, high := range []bool{false, true} {
		for _, reverse := range []bool{false, true} {
			bound, order := "", "asc"
			if high {
				bound = "and e.key < $5"
			}
			if reverse {
				order = "desc"
			}
			s.scan[scanForm{high, reverse}] = strings.NewReplacer("{bound}", bound, "{order}", order).Replace(in(scanSQL))
		}
	}
	return s
}

const getSQL = `
select e.revision, e.value, e.partition, e.data_key from {schema}.entries e
where e.partition = (select p.id from {schema}.partitions p where p.name = $1 and not p.erasing) and e.key = $2`

// scanSQL ends a page one row behind the one that reaches $4 bytes as stored, so that neither the
// server nor the network carries what the page has no room for.
const scanSQL = `
select key, revision, value, partition, data_key from (
	select e.key, e.revision, e.value, e.partition, e.data_key,
		sum(octet_length(e.key) + octet_length(e.value)) over (order by e.key {order} rows between unbounded preceding and 2 preceding) as size
	from {schema}.entries e
	where e.partition = (select p.id from {schema}.partitions p where p.name = $1 and not p.erasing) and e.key >= $2 {bound}
	order by e.key {order} limit $3) page
where size is null or size < $4
order by key {order}`

// commitSQL commits a batch of Txs, none of which touches a key that an earlier one
// writes. See "How a commit is one statement" in the package's comment.
//
//	$1 names of the partitions, $2 those of them that are written to
//	$3 to $8 the conditions: Tx, position in $1, key, kind, revision, value
//	$9 to $12 the writes: Tx, position in $1, key, value; null is a deletion
//	$13, $14 the lane and its number
//	$15 the expected number of each partition in $1, 0 for any: a partition that was
//	erased and made again has another
//	$16, $17 the data key and the mark of each write
//
// Its rows are (0, position in $1, revision, 1 for stale + 2 for erasing) for each
// partition that exists, (1, Tx, number of the condition, found revision) for each Tx
// that fails, and (2, 0, 0, 0) if the lane has passed its number.
const commitSQL = `
with locked as materialized (
	select p.id, p.revision, p.erasing from {schema}.partitions p where p.name = any($2::bytea[]) order by p.name for no key update
), parts as materialized (
	select n.i, p.id, p.revision, p.erasing or coalesce(l.erasing, false) as erasing,
		n.name = any($2::bytea[]) and (l.id is null or l.revision <> p.revision) as stale
	from unnest($1::bytea[], $15::bigint[]) with ordinality as n(name, expected, i)
	join {schema}.partitions p on p.name = n.name and n.expected in (0, p.id)
	left join locked l on l.id = p.id
), failed as materialized (
	select distinct on (c.tx) c.tx, c.i, coalesce(e.revision, 0) as found
	from unnest($3::int[], $4::int[], $5::bytea[], $6::int[], $7::bigint[], $8::bytea[])
		with ordinality as c(tx, part, key, kind, revision, value, i)
	left join parts p on p.i = c.part
	left join lateral (select e.revision, coalesce(e.mark, e.value) as value from {schema}.entries e where e.partition = p.id and e.key = c.key limit 1) e on true
	where not case c.kind when 1 then e.revision is null when 2 then coalesce(e.revision = c.revision, false) else coalesce(e.value = c.value, false) end
	order by c.tx, c.i
), held as materialized (
	select p.id, p.revision + 1 as revision, w.key, w.value, w.data_key, w.mark
	from unnest($9::int[], $10::int[], $11::bytea[], $12::bytea[], $16::int[], $17::bytea[]) as w(tx, part, key, value, data_key, mark)
	join parts p on p.i = w.part and not p.stale and not p.erasing
	where w.tx not in (select f.tx from failed f)
), outcome as materialized (
	select 0::bigint as kind, p.i as a, p.revision as b, p.stale::int + 2 * p.erasing::int as c from parts p
	union all select 1, f.tx, f.i, f.found from failed f
), lane as (
	insert into {schema}.lanes as l (id, n, outcome, at)
	select $13::bytea, $14::bigint, (select array_agg(array[o.kind, o.a, o.b, o.c]) from outcome o), now() where exists (select from held)
	on conflict (id) do update set n = excluded.n, outcome = excluded.outcome, at = excluded.at where l.n < excluded.n
	returning 1
), made as materialized (
	select h.* from held h where exists (select from lane)
), moved as (
	update {schema}.partitions p set revision = m.revision from (select distinct id, revision from made) m where p.id = m.id
), put as (
	insert into {schema}.entries (partition, key, revision, value, data_key, mark)
	select m.id, m.key, m.revision, m.value, m.data_key, m.mark from made m where m.value is not null
	on conflict (partition, key) do update
		set revision = excluded.revision, value = excluded.value, data_key = excluded.data_key, mark = excluded.mark
), deleted as (
	delete from {schema}.entries e using made m where m.value is null and e.partition = m.id and e.key = m.key
)
select o.kind, o.a, o.b, o.c from outcome o
union all select 2, 0, 0, 0 where exists (select from held) and not exists (select from lane)`

// lockSQL locks the partitions of a batch before its statement begins, which then finds
// none of them stale.
const lockSQL = `select p.id from {schema}.partitions p where p.name = any($1::bytea[]) order by p.name for no key update`

// ensureSQL makes the rows of partitions. The lock on meta keeps the end of an erasure
// from raising the floor meanwhile.
const ensureSQL = `
insert into {schema}.partitions (name, revision)
select n.name, m.floor from (select floor from {schema}.meta for share) m, unnest($1::bytea[]) as n(name) order by n.name
on conflict (name) do nothing`

// claimSQL takes a number of a lane for a batch that was not committed, so that it
// cannot be committed later. It waits for a statement that is committing it.
const claimSQL = `
insert into {schema}.lanes as l (id, n, outcome, at) values ($1, $2, null, now())
on conflict (id) do update set n = excluded.n, outcome = null, at = excluded.at where l.n < excluded.n`

const outcomeSQL = `select l.n, l.outcome from {schema}.lanes l where l.id = $1`

const versionSQL = `select coalesce(max(version), 0) from {schema}.versions`
