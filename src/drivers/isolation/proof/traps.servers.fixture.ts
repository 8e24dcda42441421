/** Tests known ways of losing isolation at the first use of a server, on every driver that they concern. */
import { afterAll, afterEach, beforeEach, describe, expect, inject, test } from 'vitest'
import { directHandle } from '../../../testing/base/direct-handle.ts'
import { locationIn, proofMigrations, type Subject } from '../../../testing/base/subject.ts'
import { raw } from '../../../testing/leak/operations.ts'
import { Outside } from '../../../testing/leak/operations-server.ts'
import { openSubject } from './subject.fixture.ts'

/** @param kinds of drivers on PostgreSQL */
export function serverTraps(kinds: readonly string[]): void {
  describe.each(kinds)('traps of isolation, %s', (kind) => {
    const outside = new Outside()
    let subject: Subject
    beforeEach(async () => {
      subject = await openSubject(inject('postgresUrl'), kind)
    })
    afterEach(() => subject?.close())
    afterAll(() => outside.close())

    test('a login that inherits the rights of a scope is rejected before its first query', async () => {
      const driver = await subject.open(proofMigrations('postgres'))
      const at = locationIn(subject, driver, 'a')
      await driver.provision(at)
      const view = subject.viewOf?.(at)
      if (!view) throw new Error(`${kind} has no server`)
      const login = decodeURIComponent(new URL(view.tenantUrl).username)
      const [{ scope }] = await outside.all(
        view,
        'select roleid::regrole::text as scope from pg_auth_members where member = $1::regrole',
        [`"${login}"`],
      )
      await outside.all(view, `grant ${scope} to "${login}" with inherit true`)
      await expect(raw(directHandle(driver, at).db, 'select owner from items')).rejects.toThrow('NOINHERIT')
    })

    test('concurrent processes create the first storage of a server once', async () => {
      const drivers = await Promise.all(Array.from({ length: 4 }, () => subject.open(proofMigrations('postgres'))))
      const made = drivers.flatMap((one) => ['a', 'b'].map((id) => one.provision(locationIn(subject, one, id))))
      expect(await Promise.all(made)).toEqual(Array(8).fill(proofMigrations('postgres').map(({ name }) => name)))
    })
  })
}
