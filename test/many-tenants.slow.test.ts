/** The memory of a command over all tenants is independent of their number. */
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { PROGRAM, programWith } from '../src/cli/program.fixture.ts'
import { useProgram } from '../src/cli/program-database.fixture.ts'
import { createLogger } from '../src/kernel/base/logger.ts'
import { Database } from '../src/kernel/database/database.ts'

const SIZES = [5_000, 20_000] as const
const MAY_GROW_BYTES = 4_000_000
const HEAP_PEAK = fileURLToPath(import.meta.resolve('./support/heap-peak.ts'))

const tenantry = useProgram(programWith, {}, { backups: { directory: 'backups', everyHours: 24 } })
let database: Database
beforeAll(() => {
  database = new Database({ url: tenantry.database.url, max: 1 }, createLogger({ level: 'silent' }))
})
afterAll(() => database?.close())

/** Adds rows of active tenants without storage, up to this number: each is a missing storage and a due backup. */
const growTo = (count: number) =>
  database.sql(
    `insert into multitenancy.tenants
       (id, name, status, metadata, domains, isolation, placement, locator, created_at, updated_at, activated_at)
     select 'tenant-' || i, 'Tenant ' || i, 'active', '{}', '{}', 'schema-pg', 'main', 't1_tenant-' || i, now(), now(),
       now() - interval '30 days'
     from generate_series((select count(*) from multitenancy.tenants) + 1, $1) i`,
    [count],
  )

async function runMeasured(...argv: string[]) {
  const through = [process.execPath, '--import', HEAP_PEAK, PROGRAM, ...argv] as const
  const { code, stdout, stderr } = await tenantry.start(argv, { stdin: '', through: [...through] }).ended
  const [, peak] = /peak of live memory: (\d+)/.exec(stderr) ?? []
  if (stdout === '' || peak === undefined) expect.fail(stderr)
  return { code, result: JSON.parse(stdout), peak: Number(peak) }
}

describe('with four times as many tenants', () => {
  const peaks: Record<string, number[]> = {}
  const keep = (command: string, peak: number) => {
    peaks[command] = [...(peaks[command] ?? []), peak]
  }

  test.each(SIZES)('doctor and tenant:backup:run report all of %i tenants', async (count) => {
    await growTo(count)
    const doctor = await runMeasured('doctor', '--json')
    keep('doctor', doctor.peak)
    expect(doctor.code).toBe(6)
    const messages = doctor.result.checks
      .filter(({ code }: { code: string }) => ['storage.missing', 'backups.stale'].includes(code))
      .map(({ message }: { message: string }) => message)
    expect(messages.filter((one: string) => one === `and ${count - 50} more of this kind`)).toHaveLength(2)

    const due = await runMeasured('tenant:backup:run', '--dry-run', '--json')
    keep('tenant:backup:run', due.peak)
    expect(due.code).toBe(0)
    expect(due.result).toHaveLength(count)
  })

  test.each(['doctor', 'tenant:backup:run'])('%s keeps no more in memory', (command) => {
    const [least = 0, most = Number.POSITIVE_INFINITY] = peaks[command] ?? []
    expect(most - least).toBeLessThan(MAY_GROW_BYTES)
  })
})
