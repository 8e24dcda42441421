/**
 * Serves the route of guarded-read.ts with a quota that has a limit. The store is Redis at STORE_URL, or PostgreSQL.
 */
import { postgresStore } from '../../src/drivers/store/postgres.ts'
import { redisStore } from '../../src/drivers/store/redis.ts'
import { enforceQuota, guard } from '../../src/http/hosts/node.ts'
import { fromHeader } from '../../src/index.ts'
import { quotas } from '../../src/satellites/quotas/index.ts'
import { listen } from '../listen.ts'
import { folderOf, optionsFor, ROWSCOPE, select } from '../notes.ts'
import { openTenancy } from '../tenancy.ts'

const { DATABASE_URL = '', STORE_URL } = process.env
const satellite = quotas()
const tenancy = await openTenancy(DATABASE_URL, {
  ...optionsFor(ROWSCOPE),
  store: STORE_URL ? redisStore({ url: STORE_URL }) : postgresStore(),
  plans: { defaultPlan: 'free', definitions: { free: { limits: { reads: 1_000_000_000 } } } },
  satellites: [satellite],
  role: 'api',
})
const { quotas: service } = tenancy as typeof tenancy & { quotas: ReturnType<(typeof satellite)['service']> }

const SELECT = select('notes')
const notes = guard(
  tenancy.guard({ resolve: fromHeader(), authorize: 'anyone' }),
  enforceQuota(service, 'reads', async (incoming, outgoing, tenant) => {
    if (!tenant) throw new Error('the route is guarded')
    const { rows } = await tenant.pool.query(SELECT, [folderOf(incoming.url)])
    outgoing.setHeader('content-type', 'application/json')
    outgoing.end(JSON.stringify(rows))
  }),
)
listen(notes, () => tenancy.stop())
