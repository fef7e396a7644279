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
// own. The value is stored as it is, beside its key: values are below Badger's
// threshold, so its value log and that log's garbage collector have no work.
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
// compares what is there with the name. Purges remove the files that no entry refers
// to, also those of commits that failed or were killed; where nothing is deleted, a
// collection does so within Options.PurgeInterval of a large value that was written; backups, [Store.Verify],
// [Store.Erase] and [Store.Prove] cover them.
//
// # Revisions
//
// A revision is the version that Badger gives to a key, which is the timestamp
// of the commit. Commits are made one at a time, so the timestamp is known
// before the commit: the next one after what the transaction reads at. Being
// one at a time, they cannot conflict in Badger's sense either, and its
// conflict detection is off. Concurrent callers lose little by it, because a
// Badger transaction waits for the sync of the ones before it anyway; what
// makes commits fast is giving many of them to one Commit.
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
// logs with AES-CTR under data keys, of which it makes a new one every ten days,
// and those under this key. Values are sealed before that with a data key of their
// partition (XAES-256-GCM, whose keys seal any number of values), bound to their partition, key and revision. The data keys
// are in [KeyFile], sealed with the store's key; it is written when a partition is
// first written to, and when one is erased. Names of keys are Badger's to encrypt
// alone, whose encryption is no seal: a file that was changed is found by its
// checksum, which keeps out no attacker who can write there. [Rekey] changes the
// store's key and the data keys. A directory that was made before there were data
// keys is read as it is; what it holds is sealed when it is written again, or when a
// backup of it is made.
//
// # Erasure
//
// [Store.Erase] removes a partition: at once out of sight, and its data key out of
// the key file; then out of tables and logs, by having Badger drop the tables that only
// have its keys, while other callers wait for some tenths of a second. [Store.Prove]
// reads them all to say so. An erasure that was interrupted is in [Store.Erasing]. What
// was erased is listed in the key file, by a digest of its name, for [Restore] to leave
// it out.
//
// What is deleted otherwise leaves the files with the next [Store.Purge], which a
// store does by itself within Options.PurgeInterval. A purge merges every table down to
// the last level once, resting eight times as long as it works, or less where others
// write faster than that: of a store of S bytes it writes some S, and what overlaps.
//
// # Backups
//
// [Store.Backup] writes all entries as they are at one moment, sealed with the
// store's key, and their values with data keys that are not in it; [Restore] makes a
// store out of that and the key file, with the same key, another or none, and
// [VerifyBackup] only reads it. There are no incremental backups: Badger
// forgets that a key was deleted once its tables are merged, so a chain of them
// would bring deleted entries back.
//
// # Damage
//
// Badger replays its MANIFEST and the logs of its memtables as far as they can be
// read, deletes tables that the MANIFEST does not name, and ends the process when a
// goroutine of its own meets a damaged table. [Open] therefore reads these files
// before Badger does, and compares them with an inventory of the package's own,
// written when the store opens and closes and within a second of a change of the
// MANIFEST. After a clean close any difference is [kv.ErrCorrupt]; after a crash so
// is a MANIFEST that is shorter than it was, a table that is missing or whose
// checksums differ, a missing log, and a log in which whole commits follow a
// damaged one. The error names the file, and nothing has changed. After a crash,
// and with Options.Verify, every table is read, which takes about a second per
// gigabyte; after a clean close, those whose size or time of change differ.
//
// Tables that nothing names are moved to the directory "lost" inside the store's,
// and never deleted.
//
// A large value whose file is missing or changed is [kv.ErrCorrupt] when it is read,
// and to [Store.Verify].
//
// Not found is damage of the last commit before a crash, which looks like one that
// did not reach the disk, and bits of a table that change under an unchanged time:
// Options.Verify and [Store.Verify] find these. Without a lock on directories, as
// on Windows, files are not read before Badger does.
//
// # Rough edges
//
// Badger 4.9.6 does not report a damaged block of a table to a reader while the
// store is open: the keys in it seem absent. [Store.Verify] finds it; run it
// before a backup is trusted and after a device has failed.
//
// A read that begins while a commit is being synced waits for that sync, unless it
// is of a key that commits are guarded by ([kv.AtRevision]) and write again and
// again: of those the latest are kept in memory.
//
// Badger writes through memory maps, so a full device would end the process
// with a signal instead of an error. Commits are therefore refused while there
// is still room, see Options.MinFree, and so is closing. If somebody else fills
// the device to the end between that look and the write, the process ends;
// nothing that was acknowledged is lost, as after any crash.
package badgerkv
