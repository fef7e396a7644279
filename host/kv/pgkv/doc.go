// Package pgkv keeps a [kv.Driver] in a PostgreSQL database, which any number of
// processes on any number of machines use at once. It is the only package of the host
// that imports pgx.
//
//	store, err := pgkv.Open(ctx, "postgres://agenthost@db.example.org/agenthost?sslmode=verify-full", nil)
//	d := kv.Group(store)
//
// # How entries lie in the database
//
// The tables are in a schema of their own ([DefaultSchema], or the address's "schema").
// A partition is a row of "partitions": its name, its revision and whether it is being
// erased. An entry is a row of "entries": the partition's number, the key, the revision,
// the value. Keys are bytea, which PostgreSQL orders by bytes in every locale.
//
// # How a commit is one statement
//
// A batch of Txs with their conditions and writes is one statement, and a transaction of
// its own: arrays go in, and common table expressions check the conditions and make the
// writes of the Txs whose conditions hold. The statement locks the rows of the
// partitions that it writes to, in the order of their names, and compares their
// revisions with those of its snapshot. A partition with another revision was written
// to between the snapshot and the lock: the statement leaves its Txs alone, and the
// store sends them again. So commits to a partition are serial, and every condition is
// checked against all earlier commits; it needs isolation level read committed,
// which is PostgreSQL's default, and is as right on any higher one. A batch that lost
// this race locks its partitions in a statement before, and then cannot lose it.
// Readers never wait for writers.
//
// The revision of a write is that of its partition plus one. Txs of a batch that touch a
// key which an earlier one writes begin another batch.
//
// # Commits whose connection breaks
//
// Each batch has a number in a lane, which is a row of "lanes" that the statement brings
// up to the number, together with the batch's outcome. When a connection breaks before
// the answer, the store connects again and claims the number: either the row has it,
// with the outcome, or the batch was not committed and cannot be any more, even if the
// server receives the statement late; then the store sends it again under another
// number. [kv.ErrInDoubt] remains for a database that stays away longer than
// Options.Patience.
//
// A process that is killed may leave a statement on its way, which the server commits
// after the death of its sender. A process that takes over work writes under a fence
// ([kv.Fence]).
//
// # Encryption
//
// With Options.Key every value is sealed with the data key of its partition
// (XAES-256-GCM), bound to its partition and key; the data keys are rows of "data_keys",
// sealed with the store's key. A value is not bound to its revision, which the server
// gives: who can write to the tables can put an earlier value of the same key back. The
// fence of a condition is compared by a keyed digest of the value beside it, so who reads
// the tables sees when a key has the same value again. The keys of entries, the names of
// partitions, sizes and times are in clear: encrypt the server's disk, too.
//
// # Erasure
//
// [Store.BeginErase] marks the partition's row and deletes its data key; [Store.Erase]
// deletes its entries and then its row, of which a salted digest stays. [Store.Prove]
// counts rows. PostgreSQL keeps deleted rows in its files until it vacuums and in its
// log and archives, and replicas, dumps and base backups have what they copied: with
// Options.Key all of these are values without a data key, except where they also have the
// row of the data key, which only the store's key opens. After an erasure that must be
// final, VACUUM the schema's tables, and remove backups and archived logs from before.
//
// # Rights
//
// The role needs no right but usage of the schema, and select, insert, update and delete
// on its tables. For the first start, and the first start of a version that changes the
// tables, it needs the right to create in the schema, or on the database if the schema
// does not exist; or another role makes the tables, and Options.MigrationsDisabled is
// set. No extension, function, trigger or advisory lock is used.
//
// # Other databases
//
// The tests run on PostgreSQL 15. The statements use nothing that a distributed database
// which speaks PostgreSQL's protocol lacks by design (no advisory locks, no LISTEN in
// the path of a commit; serialization failures, 40001 and 40P01, are sent again), but no
// such database was tested.
package pgkv
