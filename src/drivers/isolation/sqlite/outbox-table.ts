/** The table of outbox entries: temporary, so that it is not among the host's tables. */
export const OUTBOX = `create temp table tenantry_outbox (seq integer primary key, id text, kind text, payload text,
  context text, mac text, posted_at text default (strftime('%Y-%m-%dT%H:%M:%fZ')))`
