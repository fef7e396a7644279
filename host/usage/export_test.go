package usage

// Accounts returns how many tenants a ledger has in memory.
func (l *Ledger) Accounts() int { return len(l.all()) }

// KeptAccounts is how many are kept before those without use are forgotten.
const KeptAccounts = keptAccounts

// FlushRecords is after how many records a tenant's are settled before their time.
const FlushRecords = flushRecords
