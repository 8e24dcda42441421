/** The outbox of sqlite-memory. Entries end with the process, as all rows do. */
import type { StorageLocation } from '../../../tenants/isolation/driver.ts'
import type { DriverOutbox, PostedEntry } from '../../../tenants/isolation/outbox.ts'
import { execute } from './connection.ts'
import type { SqliteStorage } from './storage.ts'

/** @param find undefined: the storage is not in this process */
export const sqliteOutbox = (find: (location: StorageLocation) => SqliteStorage | undefined): DriverOutbox => ({
  isShared: false,

  post: ({ id, kind, payload, context, mac }) => ({
    text: 'insert into temp.tenantry_outbox (id, kind, payload, context, mac) values (?, ?, ?, ?, ?)',
    values: [id, kind, payload, context, mac],
  }),

  async prepare() {},

  async relay(location, _, apply) {
    const storage = find(location)
    if (!storage) return
    const { rows } = await execute(storage, { text: 'select * from temp.tenantry_outbox order by seq' }, FENCED_TOO)
    if (rows.length === 0) return
    const entries = rows.map((row) => toEntry(row, location.tenantId))
    const postponed = await apply(entries)
    const applied = rows.filter((_, at) => !postponed?.entries.has(entries[at] as PostedEntry))
    const seqs = JSON.stringify(applied.map(({ seq }) => seq))
    const text = 'delete from temp.tenantry_outbox where seq in (select value from json_each(?))'
    await execute(storage, { text, values: [seqs] }, FENCED_TOO)
    if (postponed) throw postponed.error
  },
})

const FENCED_TOO = { passesFence: true }

const toEntry = ({ id, kind, payload, context, mac, posted_at }: any, tenantId: string): PostedEntry => ({
  id,
  tenantId,
  kind,
  payload,
  context,
  mac,
  postedAt: new Date(posted_at),
})
