/** Mutants by an independent reader of the source, who searched for mistakes that the suite could miss. */
import type { SourceMutant } from './mutant.ts'

export const READER_MUTANTS: readonly SourceMutant[] = [
  {
    name: 'a job keyed without its tenant',
    story:
      'Two tenants are suspended while their server is unavailable: the job of the second is dropped, and its storage stays open.',
    file: 'tenants/lifecycle/fences.ts',
    replace: '{ tenantId: row.id, key: row.id })',
    by: `{ tenantId: row.id, key: 'closed' })`,
    tests: ['src/tenants/lifecycle/fences.slow.test.ts'],
  },
  {
    name: 'used on after a commit that failed',
    story: 'A failed COMMIT skips the reset of the session: locks of a tenant remain for the next one.',
    file: 'drivers/isolation/scope/scoped-connection.ts',
    replace: '    const wasClean = this.#isClean\n    this.#isClean = false\n',
    by: '    const wasClean = this.#isClean\n',
    tests: ['src/drivers/isolation/schema-pg.test.ts'],
  },
  {
    name: 'a login trusted for ever',
    story: 'A login that becomes a superuser after the first connection is not checked again.',
    file: 'drivers/isolation/roles/login-clients.ts',
    replace: 'this.#trustedUntil.set(where, performance.now() + TRUSTED_MS)',
    by: 'this.#trustedUntil.set(where, Number.POSITIVE_INFINITY)',
    tests: ['src/drivers/isolation/roles/login-rights.test.ts'],
  },
  {
    name: 'tried again though it may have run',
    story: 'A statement whose response was lost runs twice.',
    file: 'tenants/handles/router.ts',
    replace: '  if (!StorageFenced.matches(error)) throw toTenantError(error) // may have run\n',
    by: '',
    on: ['database-pg, batch'],
    tests: ['src/tenants/handles/router.lost.slow.test.ts'],
  },
  {
    name: 'a handle with the schema that its tenant has left',
    story: 'With qualified names, a handle continues to use the schema of an earlier epoch.',
    file: 'tenants/handles/handles.ts',
    replace: 'const hasStorage = kept?.locator === location.locator',
    by: 'const hasStorage = kept !== undefined',
    on: ['schema-pg, qualified'],
    tests: ['src/tenants/handles/handles.test.ts'],
  },
]
