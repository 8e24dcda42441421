/**
 * `npm run bench [-- --quick] [--only <text>] [--write]`: runs all benchmarks; each result is a ratio to a reference or
 * a physical limit. `--write` writes the results and the machine to docs/benchmarks.md.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startEmbeddedPostgres } from '../src/service/embedded-postgres.ts'
import { adminApi } from './cases/admin-api.ts'
import { adoption } from './cases/adoption.ts'
import { auditInsert } from './cases/audit-insert.ts'
import { backups } from './cases/backups.ts'
import { billingReceiver } from './cases/billing-receiver.ts'
import { churn } from './cases/churn.ts'
import { coldTenants } from './cases/cold-tenants.ts'
import { consoleScreens } from './cases/console.ts'
import { erasing } from './cases/erasing.ts'
import { flags } from './cases/flags.ts'
import { guardAlone } from './cases/guard.ts'
import { guardedReads } from './cases/guarded-reads.ts'
import { migrating } from './cases/migrating.ts'
import { outbox } from './cases/outbox.ts'
import { paging } from './cases/paging.ts'
import { provisioning } from './cases/provisioning.ts'
import { quotaConsume } from './cases/quota-consume.ts'
import { quotaRoute } from './cases/quota-route.ts'
import { quotaStores } from './cases/quota-stores.ts'
import { scopedReads } from './cases/scoped-reads.ts'
import { scrape } from './cases/scrape.ts'
import { start } from './cases/start.ts'
import { webhookLatency } from './cases/webhook-latency.ts'
import { webhookSending } from './cases/webhook-sending.ts'
import type { Case, Result } from './measure.ts'
import { printed, write } from './report.ts'

const cases: readonly Case[] = [
  start,
  adminApi,
  guardedReads,
  scopedReads,
  guardAlone,
  flags,
  coldTenants,
  churn,
  provisioning,
  adoption,
  migrating,
  quotaConsume,
  quotaRoute,
  quotaStores,
  webhookSending,
  webhookLatency,
  billingReceiver,
  auditInsert,
  outbox,
  backups,
  erasing,
  paging,
  scrape,
  consoleScreens,
]

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    write: { type: 'boolean', default: false },
    only: { type: 'string' },
  },
})
const directory = mkdtempSync(join(tmpdir(), 'tenantry-bench-'))
const server = await startEmbeddedPostgres({
  directory: join(directory, 'postgres'),
  password: 'bench',
  settings: { max_connections: '300', shared_buffers: '256MB' },
})
const results: Result[] = []
try {
  for (const { name, run } of cases) {
    if (values.only && !name.includes(values.only)) continue
    process.stderr.write(`${name}\n`)
    const say = (text: string) => process.stderr.write(`  ${text}\n`)
    for (const result of await run({ postgresUrl: server.url, quick: values.quick, say })) {
      results.push(result)
      process.stdout.write(`${printed(result)}\n`)
    }
  }
} finally {
  await server.stop()
  rmSync(directory, { recursive: true, force: true })
}
if (values.write) write(results)
