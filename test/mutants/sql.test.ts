/**
 * The suite of all drivers on databases to which one of `sql-mutants.ts` is done (TENANTRY_SQL_MUTANT): it has to fail. In a run
 * of all tests, where none is named, each mutant is seen to be one that PostgreSQL takes.
 */
import { describe, expect, inject, test } from 'vitest'
import { KINDS, openSubject } from '../../src/drivers/isolation/subject.fixture.ts'
import type { IsolationDriver, Place } from '../../src/tenants/isolation.ts'
import { placeIn, proofMigrations, type Subject } from '../../src/testing/isolation-subject.ts'
import { isolationSuite } from '../../src/testing/isolation-suite.ts'
import { Outside } from '../../src/testing/leak-operations-server.ts'
import { kindsOf, type SqlMutant } from './mutant.ts'
import { SQL_MUTANTS } from './sql-mutants.ts'

const chosen = SQL_MUTANTS.find(({ name }) => name === process.env.TENANTRY_SQL_MUTANT)
const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`

async function mutate({ viewOf }: Subject, place: Place, { sql }: SqlMutant): Promise<void> {
  const view = viewOf?.(place)
  if (!view) throw new Error('only what a server keeps can be changed behind its back')
  const login = decodeURIComponent(new URL(view.tenantUrl).username)
  const outside = new Outside()
  try {
    const statement = sql({
      schema: quoted(view.schema),
      login: quoted(login),
      scopeRole: quoted(`${login}_scope`),
      database: quoted(decodeURIComponent(new URL(view.url).pathname.slice(1))),
    })
    await outside.all(view, statement)
  } finally {
    await outside.close()
  }
}

/** Every tenant that it provisions is mutated at once. */
const mutated = (subject: Subject, mutant: SqlMutant): Subject => ({
  ...subject,
  async open(migrations): Promise<IsolationDriver> {
    const driver = await subject.open(migrations)
    return {
      ...driver,
      async provision(place) {
        const applied = await driver.provision(place)
        await mutate(subject, place, mutant)
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
  describe.each(['schema-pg, batch', 'rowscope-pg, batch', 'database-pg, batch'])('mutants in SQL, %s', (kind) => {
    const mutants = SQL_MUTANTS.filter((mutant) => kindsOf(mutant).includes(kind))
    test('are statements that PostgreSQL takes, and can be found in the catalog', async () => {
      const seen: string[] = []
      for (const mutant of mutants) {
        const subject = await openSubject(inject('postgresUrl'), kind)
        try {
          const driver = await subject.open(proofMigrations('postgres'))
          const place = placeIn(subject, driver, 'a')
          await driver.provision(place)
          await mutate(subject, place, mutant)
          const places = async function* () {
            yield place
          }
          for await (const { severity } of driver.audit(places())) {
            if (severity !== 'error') continue
            seen.push(mutant.name)
            break
          }
        } finally {
          await subject.close()
        }
      }
      expect(mutants.map(({ name }) => name).filter((name) => !seen.includes(name))).toEqual([])
    }, 60_000)
  })
}
