/**
 * Runs the suite of all drivers on databases with one of `sql-mutants.ts` (TENANTRY_SQL_MUTANT), where it must fail.
 * Without the variable, checks that PostgreSQL accepts the statements of each mutant.
 */
import { expect, inject, test } from 'vitest'
import { KINDS, openSubject } from '../../src/drivers/isolation/proof/subject.fixture.ts'
import type { IsolationDriver, StorageLocation } from '../../src/tenants/isolation/driver.ts'
import { locationIn, proofMigrations, type Subject } from '../../src/testing/base/subject.ts'
import { isolationSuite } from '../../src/testing/isolation/suite.ts'
import { Outside } from '../../src/testing/leak/operations-server.ts'
import { kindsOf, type SqlMutant } from './mutant.ts'
import { SQL_MUTANTS } from './sql-mutants.ts'

const chosen = SQL_MUTANTS.find(({ name }) => name === process.env.TENANTRY_SQL_MUTANT)
const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`

/** @param around statements before and after the mutant's */
async function mutate(
  { viewOf }: Subject,
  location: StorageLocation,
  { sql }: SqlMutant,
  around: (statements: string) => string = (statements) => statements,
): Promise<void> {
  const view = viewOf?.(location)
  if (!view) throw new Error('a SQL mutant needs a driver with a server')
  const login = decodeURIComponent(new URL(view.tenantUrl).username)
  const outside = new Outside()
  try {
    const [{ scopeRole }] = await outside.all(
      view,
      `select roleid::regrole::text as "scopeRole" from pg_auth_members where member = $1::regrole`,
      [quoted(login)],
    )
    const statements = sql({
      schema: quoted(view.schema),
      login: quoted(login),
      scopeRole,
      database: quoted(decodeURIComponent(new URL(view.url).pathname.slice(1))),
    })
    await outside.all(view, around(statements))
  } finally {
    await outside.close()
  }
}

/** Applies the mutant to every provisioned tenant. */
const mutated = (subject: Subject, mutant: SqlMutant): Subject => ({
  ...subject,
  async open(migrations): Promise<IsolationDriver> {
    const driver = await subject.open(migrations)
    return {
      ...driver,
      async provision(location) {
        const applied = await driver.provision(location)
        await mutate(subject, location, mutant)
        return applied
      },
    }
  },
})

if (chosen) {
  for (const kind of kindsOf(chosen)) {
    const open = async () => mutated(await openSubject(inject('postgresUrl'), kind), chosen)
    await isolationSuite(kind, open, KINDS[kind]?.engine)
  }
} else {
  const kinds = ['schema-pg, batch', 'rowscope-pg, batch', 'database-pg, batch']
  test.each(kinds)('PostgreSQL accepts the statements of the SQL mutants for %s', async (kind) => {
    const subject = await openSubject(inject('postgresUrl'), kind)
    try {
      const driver = await subject.open(proofMigrations('postgres'))
      const location = locationIn(subject, driver, 'a')
      await driver.provision(location)
      const mutants = SQL_MUTANTS.filter((mutant) => kindsOf(mutant).includes(kind))
      for (const mutant of mutants) await mutate(subject, location, mutant, (sql) => `begin; ${sql}; rollback`)
      expect(mutants.length).toBeGreaterThan(10)
    } finally {
      await subject.close()
    }
  })
}
