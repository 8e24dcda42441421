/**
 * `npm run test:fuzz [-- --operations 100000 --driver <start of a name> --seed <n>]`: runs the leak fuzzer on each
 * driver and mode, prints counts and seed, and exits with 1 if there is a violation.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { KINDS, openSubject } from '../../src/drivers/isolation/proof/subject.fixture.ts'
import { startEmbeddedPostgres } from '../../src/service/embedded-postgres.ts'
import { locationIn, proofMigrations } from '../../src/testing/base/subject.ts'
import { leakFuzz } from '../../src/testing/leak/fuzzer.ts'

const TENANTS = ['a', 'b', 'c', 'a-b', 'select', '0']

const { values } = parseArgs({
  options: {
    operations: { type: 'string', default: '100000' },
    workers: { type: 'string', default: '12' },
    driver: { type: 'string', default: 'all' },
    seed: { type: 'string' },
  },
})
const kinds = Object.keys(KINDS).filter((kind) => values.driver === 'all' || kind.startsWith(values.driver))
if (kinds.length === 0) throw new Error(`--driver must be all, or the start of one of ${Object.keys(KINDS).join('; ')}`)

const given = process.env.TENANTRY_TEST_POSTGRES_URL
const directory = mkdtempSync(join(tmpdir(), 'tenantry-fuzz-'))
const server = given
  ? undefined
  : await startEmbeddedPostgres({
      directory: join(directory, 'postgres'),
      password: 'fuzz',
      settings: { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' },
    })
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, async () => {
    await server?.stop()
    rmSync(directory, { recursive: true, force: true })
    process.exit(130)
  })
}
try {
  for (const kind of kinds) await fuzz(kind, given ?? server?.url ?? '')
} finally {
  await server?.stop()
  rmSync(directory, { recursive: true, force: true })
}

async function fuzz(kind: string, serverUrl: string): Promise<void> {
  const subject = await openSubject(serverUrl, kind)
  try {
    const driver = await subject.open(proofMigrations(KINDS[kind]?.engine ?? 'postgres'))
    const locations = TENANTS.map((id) => locationIn(subject, driver, id))
    for (const location of locations) await driver.provision(location)
    const report = await leakFuzz({
      ...subject,
      driver,
      locations,
      operations: Number(values.operations),
      workers: Number(values.workers),
      onRound: (done) => process.stderr.write(`${kind}: ${done}\r`),
      seed: values.seed === undefined ? undefined : Number(values.seed),
    })
    const { operations, violations, seed, elapsedMs } = report
    const total = Object.values(operations).reduce((sum, count) => sum + count, 0)
    console.log(
      `${kind}: ${total} operations in ${Math.round(elapsedMs / 1_000)} s, ${violations.length} violations, seed ${seed}`,
    )
    for (const [name, count] of Object.entries(operations).sort()) console.log(`  ${String(count).padStart(7)} ${name}`)
    for (const { operation, tenantId, what } of violations)
      console.log(`  VIOLATION ${operation} (${tenantId}): ${what}`)
    if (violations.length > 0) process.exitCode = 1
  } finally {
    await subject.close()
  }
}
