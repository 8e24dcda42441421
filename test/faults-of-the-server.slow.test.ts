/** Injects faults of the server: a different database than requested, and a restart. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, inject, test } from 'vitest'
import { openSubject } from '../src/drivers/isolation/proof/subject.fixture.ts'
import { isDatabaseUnavailable } from '../src/kernel/database/database.ts'
import { startEmbeddedPostgres } from '../src/service/embedded-postgres.ts'
import { findPostgresPrograms } from '../src/service/postgres-programs.ts'
import { commandOf, stopPostmaster } from '../src/service/postmaster.ts'
import { locationIn, proofMigrations, provisionedIn } from '../src/testing/base/subject.ts'
import { eventually } from '../src/testing/base/tenancy.ts'
import { raw } from '../src/testing/leak/operations.ts'
import { type Environment, expectRecovered, openEnvironment, rowsOf } from './faults/environment.ts'
import { startFaultProxy } from './support/fault-proxy.ts'

describe('a different database than requested', () => {
  test('a connection to a different database is detected before any statement', async () => {
    let other: string | undefined
    const proxy = await startFaultProxy(inject('postgresUrl'), {
      startup: (message) => (other === undefined ? message : withDatabaseOf(message, other)),
    })
    const subject = await openSubject(inject('postgresUrl'), 'database-pg, batch', {
      way: (url) => proxy.through(url),
      sharesLogin: true, // the server itself keeps the login of a tenant out of the database of another
    })
    try {
      const driver = await subject.open(proofMigrations('postgres'))
      const [a, b] = [await provisionedIn(subject, driver, 'a'), await provisionedIn(subject, driver, 'b')]
      await raw(b.db, `insert into items (id, owner) values (1, 'of b')`)
      other = locationIn(subject, driver, 'b').locator
      await expect(rowsOf(a.db)).rejects.toThrow('connected to the database')
      other = undefined
      expect(await rowsOf(a.db)).toEqual([])
    } finally {
      await subject.close()
      await proxy.close()
    }
  })
})

/** Format of the startup message: length, version, then names with values, each ended by a zero byte. */
function withDatabaseOf(message: Buffer, database: string): Buffer {
  const words = message.subarray(8).toString('latin1').split('\0')
  const at = words.indexOf('database')
  if (at < 0) return message
  words[at + 1] = database
  const body = Buffer.from(words.join('\0'), 'latin1')
  const head = Buffer.from(message.subarray(0, 8))
  head.writeInt32BE(body.length + 8)
  return Buffer.concat([head, body])
}

describe('a restart of the server', () => {
  test('statements under load fail with outage errors during a restart, and succeed afterwards', async () => {
    const directory = join(await mkdtemp(join(tmpdir(), 'tenantry-faults-')), 'postgres')
    const options = { directory, password: 'p', settings: { fsync: 'off' } }
    const postgres = await startEmbeddedPostgres(options)
    const command = commandOf(postgres.pid).split(' ')
    const grounds: Environment[] = []
    try {
      for (const kind of ['schema-pg, batch', 'rowscope-pg, batch', 'database-pg, batch'])
        grounds.push(await openEnvironment(postgres.url, kind))
      let isFinished = false
      let failures = 0
      const load = grounds.flatMap(({ handles, driver }) =>
        handles.map(async ({ id, db }) => {
          while (!isFinished) {
            await rowsOf(db).then(
              (rows) => expect(rows).toEqual([{ owner: `of ${id}`, id: 0 }]),
              (error) => {
                failures++
                expect(error).toSatisfy(
                  (error) =>
                    isDatabaseUnavailable(error) ||
                    driver.mayBeFence(error) ||
                    error.code === 'E_TENANT_CONNECTION_LIMIT',
                )
              },
            )
          }
        }),
      )
      await stopPostmaster(directory, postgres.pid, () => undefined)
      await eventually(() => expect(failures).toBeGreaterThan(10))
      const [program = '', ...args] = command
      const programs = await findPostgresPrograms(directory)
      programs.spawn(program, args, { detached: true, stdio: 'ignore' }).unref()
      for (const { handles } of grounds) for (const { db } of handles) await eventually(() => rowsOf(db))
      isFinished = true
      await Promise.all(load)
      for (const environment of grounds) await expectRecovered(environment)
    } finally {
      const last = await startEmbeddedPostgres(options)
      for (const { subject, proxy } of grounds) {
        await subject.close()
        await proxy.close()
      }
      await last.stop()
      await rm(join(directory, '..'), { recursive: true })
    }
  }, 120_000)
})
