// Package badgerkv keeps a [kv.Driver] in a directory, in an embedded Badger
// database. It is the only package that imports Badger.
//
// A commit returns when its data is synced. One process has the directory open
// at a time; a second one gets [kv.ErrLocked] and the id of the first.
//
// # How entries lie in Badger
//
// The key of an entry is the byte 0x01, the length of the partition in one
// byte, the partition, the key. Because the length comes first, no partition's
// keys can begin with another's. Keys that begin with 0x00 are the package's
// own. The value is stored beside its key: values are below Badger's threshold, so its
// value log and that log's garbage collector have no work.
//
// # Large values
//
// A value of 128 KiB or more is a file of its own in [BlobDir], and Badger has a
// reference to it: an upload of any size passes through Badger as a few bytes for each
// piece, where tables of its content would take several times its size in memory. The
// file's name is a keyed digest of the value, in a directory of the partition, so equal
// values are one file within a partition and never across two. The file and its
// directories are synced before the commit that refers to it. With Options.Key it is
// sealed with the partition's data key, bound to the partition and its name. A reader
// compares the content with the name. Purges remove the files that no entry refers to,
// also those of commits that failed or were killed; where nothing is deleted, a
// collection does so within Options.PurgeInterval of the write of a large value;
// backups, [Store.Verify], [Store.Erase] and [Store.Prove] cover them.
//
// # Revisions
//
// A revision is the version that Badger gives to a key, which is the timestamp
// of the commit. Commits are made one at a time, so the timestamp is known before the
// commit: it is the one after the transaction's read timestamp. Serial commits cannot
// conflict in Badger's sense, and its conflict detection is off. Concurrent callers
// lose little, because a Badger transaction waits for the sync of the ones before it
// anyway; what makes commits fast is giving many of them to one Commit.
//
// After a restart Badger counts on from the highest version it finds, and
// compaction removes deleted keys together with their versions. A deletion
// therefore also writes a key of the package's own, whose version stays: a
// revision that was given once is not given again.
//
// # Encryption
//
// With Options.Key everything in the directory is encrypted but for the names of
// files, how much there is and when it was written: Badger encrypts tables and
// logs with AES-CTR under data keys, of which it makes a new one every ten days, and
// the data keys under Options.Key. Values are sealed before that with a data key of
// their partition (XAES-256-GCM, whose keys seal any number of values), bound to their
// partition, key and revision. The data keys are in [KeyFile], sealed with the store's
// key; it is written when a partition is first written to, and when one is erased.
// The keys of entries are encrypted by Badger alone, whose encryption does not
// authenticate: a checksum detects a changed file, but not an attacker who can write
// there. [Rekey] changes the store's key and the data keys. In a directory that was
// made before data keys existed, values are read unsealed; each is sealed when it is
// written again, or when a backup is made.
//
// # Erasure
//
// [Store.Erase] first hides a partition from readers and removes its data key from the
// key file; then it removes the entries from tables and logs: Badger drops the tables
// that only have the partition's keys, while other callers wait for some tenths of a
// second. [Store.Prove] reads all tables and logs to prove it. [Store.Erasing] lists
// interrupted erasures. The key file lists erased partitions by a digest of the name,
// for [Restore] to leave them out.
//
// Other deleted entries leave the files with the next [Store.Purge], which a store runs
// by itself within Options.PurgeInterval. A purge merges every table down to the last
// level once, resting eight times as long as it works, or less where callers write
// faster: in a store of S bytes it writes about S, and the overlapping tables.
//
// # Backups
//
// [Store.Backup] writes all entries as of one moment, sealed with the store's key, and
// their values with data keys that are not in the backup; [Restore] makes a store from
// the backup and the key file, with the same key, another or none, and [VerifyBackup]
// only reads the backup. There are no incremental backups: Badger forgets that a key
// was deleted once its tables are merged, so a chain of increments would bring deleted
// entries back.
//
// # Damage
//
// Badger replays its MANIFEST and the logs of its memtables as far as they can be
// read, deletes tables that the MANIFEST does not name, and ends the process when a
// goroutine of its own meets a damaged table. [Open] therefore reads these files
// before Badger does, and compares them with an inventory of the package's own,
// written when the store opens and closes and within a second of a change of the
// MANIFEST. After a clean close any difference is [kv.ErrCorrupt]; after a crash so is
// a MANIFEST that became shorter, a table that is missing or whose checksums differ, a
// missing log, and a log in which whole commits follow a damaged one. The error names
// the file, and nothing has changed. After a crash, and with Options.Verify, every
// table is read, which takes about a second per gigabyte; after a clean close, those
// whose size or time of change differ.
//
// Tables that the MANIFEST does not name are moved to the directory "lost" inside the
// store's; only an erasure deletes them.
//
// A large value whose file is missing or changed is [kv.ErrCorrupt] to its reader and
// to [Store.Verify].
//
// [Open] does not find damage of the last commit before a crash, which looks like one
// that did not reach the disk; that a log is missing which was made in the last second
// before a crash, because the inventory does not name it yet; nor changed bits of a table
// with an unchanged time: Options.Verify and [Store.Verify] find the latter. On systems without a lock on
// directories, such as Windows, the files are not examined before Badger reads them.
//
// # Rough edges
//
// Badger 4.9.6 does not report a damaged block of a table to a reader while the
// store is open: the keys in it seem absent. [Store.Verify] finds it; run it
// before a backup is trusted and after a device has failed.
//
// A read that begins while a commit is being synced waits for that sync, except for a
// key that a commit both checked ([kv.AtRevision]) and wrote: the latest entries of
// such keys are kept in memory.
//
// Badger writes through memory maps, so a full device would end the process with a
// signal instead of an error. The store therefore refuses commits, and closing, before
// the device is full, see Options.MinFree. If another program fills the device between
// that check and the write, the process ends; nothing that was acknowledged is lost, as
// after any crash. While no file can be created, for want of inodes or descriptors, merges
// of tables wait: Badger 4.9.6 would lose the entries of a table that it cannot create.
package badgerkv
