/**
 * Detects a pooler that shares sessions between its clients, such as PgBouncer in transaction mode.
 * - A direct connection has the process id that the server announced: one statement is enough.
 * - Behind a pooler, two clients ask in turn which process serves them. With separate sessions, the processes differ and stay the same.
 *   Ten rounds in changing order also detect a pooler that serves other clients at the same time or takes sessions in rotation.
 */
import pg from 'pg'
import { InvalidConfiguration, TenancyError } from '../base/errors.ts'

const CONNECT_TIMEOUT_MS = 5_000
const ROUNDS = 10

/** The URL of the backoffice connects to a pooler that shares sessions. */
export class SharedSessions extends TenancyError {
  constructor() {
    super(
      InvalidConfiguration,
      'The URL of the backoffice database connects to a pooler in transaction mode. Connect to PostgreSQL itself, or set ' +
        'pool_mode = session. Queries of tenants may use this pooler: set `placements.main.tenantUrl` and ' +
        '`placements.main.pooler`, see docs/pgbouncer.md.',
    )
  }
}

/** Throws `SharedSessions` if a session does not belong to one connection. */
export async function assertSeparateSessions(url: string): Promise<void> {
  const clients: pg.Client[] = []
  const open = async () => {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: CONNECT_TIMEOUT_MS })
    client.on('error', () => undefined) // the error fails the statement, too; without a listener it would end the process
    clients.push(client)
    await client.connect()
    return client
  }
  try {
    const first = await open()
    if ((await processOf(first)) === announcedProcess(first)) return
    const pair = [first, await open()]
    const known = new Map<pg.Client, number>()
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const client of pair.reverse()) {
        const id = await processOf(client)
        if ((known.get(client) ?? id) !== id) throw new SharedSessions()
        known.set(client, id)
      }
      if (new Set(known.values()).size === 1) throw new SharedSessions()
    }
  } finally {
    await Promise.allSettled(clients.map((client) => client.end()))
  }
}

async function processOf(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ id: number }>('select pg_backend_pid() as id')
  return rows[0]?.id ?? 0
}

/** A pooler announces an invented number. The types of `pg` lack it. */
const announcedProcess = (client: pg.Client) => (client as unknown as { processID: number | null }).processID
