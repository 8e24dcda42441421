import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { startEmbeddedPostgres } from '../../../service/embedded-postgres.ts'
import { locationIn, proofMigrations, provisionedIn } from '../../../testing/base/subject.ts'
import { Outside } from '../../../testing/leak/operations-server.ts'
import { openSubject } from '../proof/subject.fixture.ts'
import { insert } from './drain.fenced.fixture.ts'
import { drains } from './drain.fixture.ts'

drains(['schema-pg, transaction', 'rowscope-pg, transaction'])

describe('a drain on a server with prepared transactions', () => {
  test.each(['schema-pg, batch', 'rowscope-pg, batch', 'database-pg, batch'])(
    'waits for a prepared transaction of the tenant, of %s',
    async (kind) => {
      const directory = mkdtempSync(join(tmpdir(), 'tenantry-prepared-'))
      const server = await startEmbeddedPostgres({
        directory: join(directory, 'postgres'),
        password: 'tenantry',
        settings: { max_prepared_transactions: '4', fsync: 'off', synchronous_commit: 'off' },
      })
      onTestFinished(async () => {
        await server.stop()
        rmSync(directory, { recursive: true, force: true })
      })
      const outside = new Outside()
      onTestFinished(() => outside.close())
      const subject = await openSubject(server.url, kind)
      onTestFinished(() => subject.close())
      const driver = await subject.open(proofMigrations('postgres'))
      for (const id of ['a', 'b']) {
        const { pool } = await provisionedIn(subject, driver, id)
        const client = await pool.connect()
        await client.query('begin')
        await client.query(insert(1, id))
        await client.query(`prepare transaction 'of ${id}'`)
        client.release(true)
      }
      const location = locationIn(subject, driver, 'a')
      const view = subject.viewOf?.(location) ?? expect.fail('no server')
      await driver.fence(location)
      await expect(driver.drain(location, { graceMs: 0, maxMs: 0 })).rejects.toMatchObject({
        code: 'E_DEPENDENCY_UNAVAILABLE',
        message: expect.stringMatching(/^A prepared transaction of the tenants' login/),
      })
      await outside.all(view, `rollback prepared 'of a'`)
      await driver.drain(location, { graceMs: 0, maxMs: 0 })
      await outside.all(subject.viewOf?.(locationIn(subject, driver, 'b')) ?? view, `rollback prepared 'of b'`)
    },
  )
})
