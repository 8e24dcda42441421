/** The memory of an import is independent of the length of its file. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { CompiledQuery } from 'kysely'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { sqliteMemory } from '../../drivers/isolation/sqlite/driver.ts'
import { installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { importSql } from './import.ts'

const MEGABYTE = 1_000_000
const FILE_BYTES = 100 * MEGABYTE
const SAMPLE_EVERY = 10 * MEGABYTE
const MAY_GROW_BYTES = 10 * MEGABYTE

let postgres: TestTenancy<[]>
let sqlite: TestTenancy<[]>
beforeAll(async () => {
  const named = { name: '0001_notes', checksum: '1' }
  const up = 'create table notes (id int, body text)'
  postgres = await testTenancy(inject('postgresUrl'), { migrations: [{ ...named, up }] })
  sqlite = await testTenancy(inject('postgresUrl'), {
    isolation: [sqliteMemory()],
    migrations: [{ ...named, up: (db) => db.executeQuery(CompiledQuery.raw(up)).then(() => undefined) }],
  })
  for (const { tenancy } of [postgres, sqlite]) await installed(tenancy, { id: 'acme', name: 'Acme' })
})
afterAll(async () => {
  await postgres?.end()
  await sqlite?.end()
})

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

/** Buffers are freed some time after their last use. */
async function heldBytes(): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let n = 0; n < 5; n++) {
    collectGarbage()
    await nextTurn()
    const { heapUsed, external } = process.memoryUsage()
    least = Math.min(least, heapUsed + external)
  }
  return least
}

test.each(['postgres', 'with tables', 'sqlite'] as const)(
  'imports a file of 100 MB in the memory of one of 10 MB: %s',
  async (kind) => {
    const samples: number[] = []
    let [statements, rows] = [0, 0]
    const hasCopy = kind !== 'sqlite'
    /** Long statements, rows of COPY and short statements, whose chunks could stay in memory. */
    async function* file(): AsyncGenerator<Buffer> {
      const text = 'x'.repeat(120_000)
      for (let written = 0; written < FILE_BYTES; ) {
        const long = `insert into notes values (${statements}, '${text}');\n-- 💥\n`
        const copy = `copy notes (id, body) from stdin;\n${statements}\t${text}\n${statements}\t\\N\n\\.\n`
        const piece = Buffer.from(`${long}${hasCopy ? copy : ''}insert into notes values (${statements}, null);\n`)
        statements += hasCopy ? 3 : 2
        rows += hasCopy ? 4 : 2
        yield piece
        written += piece.length
        if (written >= SAMPLE_EVERY * (samples.length + 1)) samples.push(await heldBytes())
      }
    }
    const { handles, tableImports } = (kind === 'sqlite' ? sqlite : postgres).tenancy.tenants
    const signal = new AbortController().signal
    async function* withTable() {
      yield Buffer.from('create table notes (id int, body text);\n')
      yield* file()
    }
    if (kind === 'with tables') await installed(postgres.tenancy, { id: 'tables', name: 'T' })
    const totals =
      kind === 'with tables'
        ? await tableImports.run('tables', withTable(), { baseline: '0001_notes', signal })
        : await importSql(handles.source('acme'), file(), { engine: kind, signal })
    expect(totals).toMatchObject({ statements: statements + (kind === 'with tables' ? 1 : 0), rows })
    expect(totals.bytes).toBeGreaterThanOrEqual(FILE_BYTES)
    const [first = 0, ...others] = samples
    expect(others).toHaveLength(9)
    expect(Math.max(...others) - first).toBeLessThan(MAY_GROW_BYTES)
  },
  120_000,
)
