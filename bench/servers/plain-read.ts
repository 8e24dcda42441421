/** Reference of the guarded route: the same route, query and pool, where the host names the tenant. */
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { listen } from '../listen.ts'
import { folderOf, UNPROTECTED } from '../notes.ts'

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: Number(process.env.CONNECTIONS) })
const db = new Kysely<any>({ dialect: new PostgresDialect({ pool }) })

const bySql = async (tenantId: string, folder: number) => (await pool.query(UNPROTECTED, [tenantId, folder])).rows
const byKysely = (tenantId: string, folder: number) =>
  db
    .selectFrom('plain.notes')
    .select(['id', 'title', 'body', 'created_at'])
    .where('tenant_id', '=', tenantId)
    .where('folder', '=', folder)
    .orderBy('id')
    .limit(20)
    .execute()
const read = process.env.LIBRARY === 'kysely' ? byKysely : bySql

listen(
  async (incoming, outgoing) => {
    const rows = await read(String(incoming.headers['x-tenant-id']), folderOf(incoming.url))
    outgoing.setHeader('content-type', 'application/json')
    outgoing.end(JSON.stringify(rows))
  },
  () => pool.end(),
)
