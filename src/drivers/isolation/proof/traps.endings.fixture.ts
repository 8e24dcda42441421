/** Tests statements that end their transaction: the state of the session does not reach its next use, on any driver. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { IsolationDriver, TenantConnection } from '../../../tenants/isolation/driver.ts'
import { locationIn, proofMigrations, provisionedIn, type Subject } from '../../../testing/base/subject.ts'
import { CONNECTIONS, openSubject } from './subject.fixture.ts'

const LOCK = 4_711
const LEAVE = [
  'set standard_conforming_strings = off',
  `select set_config('app.left', 'of a', false)`,
  'declare kept cursor with hold for select owner from items',
  `select pg_advisory_lock(${LOCK})`,
]
const LEFT = `select current_setting('standard_conforming_strings') as strings,
  coalesce(current_setting('app.left', true), '') as setting, (select count(*)::int from pg_cursors where name = 'kept') as cursors,
  (select count(*)::int from pg_locks where pid = pg_backend_pid() and locktype = 'advisory' and objid = ${LOCK}) as locks`
const NOTHING = { strings: 'on', setting: '', cursors: 0, locks: 0 }

/** @param kinds of drivers on PostgreSQL */
export function endingTraps(kinds: readonly string[]): void {
  describe.each(kinds)('traps of isolation, %s', (kind) => {
    let subject: Subject
    let driver: IsolationDriver

    beforeAll(async () => {
      subject = await openSubject(inject('postgresUrl'), kind)
      driver = await subject.open(proofMigrations('postgres'))
      for (const id of ['a', 'b']) await provisionedIn(subject, driver, id)
    })
    afterAll(() => subject?.close())

    /** Checks all connections concurrently. */
    const expectNothingLeft = async (id: string) => {
      const used: TenantConnection[] = []
      for (let count = 0; count < CONNECTIONS; count++) used.push(await driver.connect(locationIn(subject, driver, id)))
      for (const connection of used) {
        await connection.begin()
        expect((await connection.query({ text: LEFT })).rows).toEqual([NOTHING])
        await connection.end('commit')
        connection.release()
      }
    }

    test.each([
      'commit',
      'commit and no chain',
      '/* a /* nested */ comment */ commit',
      ';commit',
      'end work',
      'rollback and no chain',
      'commit and chain',
    ])('%s as a statement leaves nothing in the session', async (ending) => {
      const connection = await driver.connect(locationIn(subject, driver, 'a'))
      await connection.begin()
      for (const text of LEAVE) await connection.query({ text })
      await connection.query({ text: ending }).catch(() => undefined)
      connection.release()
      await expectNothingLeft('b')
      await expectNothingLeft('a')
    })
  })
}
