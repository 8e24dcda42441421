/**
 * Serves one guarded route on node:http: the tenant of the header, and one indexed SELECT of 20 rows in its storage.
 */
import { guard } from '../../src/http/hosts/node.ts'
import { fromHeader, type Tenant } from '../../src/index.ts'
import { listen } from '../listen.ts'
import { folderOf, optionsFor, select, WAYS } from '../notes.ts'
import { openTenancy } from '../tenancy.ts'

const way = WAYS.find(({ name }) => name === process.env.WAY)
if (!way) throw new Error('WAY must be the name of a way')
const tenancy = await openTenancy(process.env.DATABASE_URL ?? '', { ...optionsFor(way), role: 'api' })

const SELECT = select('notes')
const bySql = async ({ pool }: Tenant, folder: number) => (await pool.query(SELECT, [folder])).rows
const byKysely = ({ db }: Tenant, folder: number) =>
  db
    .selectFrom('notes')
    .select(['id', 'title', 'body', 'created_at'])
    .where('folder', '=', folder)
    .orderBy('id')
    .limit(20)
    .execute()
const read = process.env.LIBRARY === 'kysely' ? byKysely : bySql

const notes = guard(
  tenancy.guard({ resolve: fromHeader(), authorize: 'anyone' }),
  async (incoming, outgoing, tenant) => {
    if (!tenant) throw new Error('the route is guarded')
    const rows = await read(tenant, folderOf(incoming.url))
    outgoing.setHeader('content-type', 'application/json')
    outgoing.end(JSON.stringify(rows))
  },
)
listen(notes, () => tenancy.stop())
