/** Mutants of the async context and the handles: code that leaves its tenant, and libraries that leave the scope. */
import type { SourceMutant } from './mutant.ts'

const SCOPE_TESTS = ['src/tenants/handles/tenant-context.test.ts', 'src/kernel/base/context.test.ts']
const CLIENT = 'tenants/handles/pg-client.ts'
const CLIENT_TESTS = ['src/tenants/handles/pg-client.test.ts']

export const CONTEXT_MUTANTS: readonly SourceMutant[] = [
  {
    name: 'runInContext replaces the context',
    story: 'A host that sets the actor behind a guard may use every tenant.',
    file: 'kernel/base/context.ts',
    replace: 'return enterContext({ ...outer, requestId, actor, ip }, work)',
    by: 'return enterContext({ requestId, actor, ip }, work)',
    tests: SCOPE_TESTS,
  },
  {
    name: 'work of run awaited outside',
    story: 'A lazy promise of Prisma or Knex sends its query without the tenant.',
    file: 'tenants/handles/tenant-context.ts',
    replace: 'async () => await work(tenant)',
    by: '() => work(tenant)',
    tests: SCOPE_TESTS,
  },
  {
    name: 'nested guard of another tenant',
    story: 'A second guard replaces the tenant of the first one.',
    file: 'tenants/guard/guard.ts',
    replace: '    assertAgrees(located.tenant.id)\n',
    by: '',
    tests: ['src/tenants/guard/guard.test.ts'],
  },
  {
    name: 'guard without authorize',
    story: 'Every request that names a tenant is admitted.',
    file: 'tenants/guard/guard.ts',
    replace: `if (authorize !== 'anyone' && typeof authorize !== 'function') {`,
    by: 'if (false) {',
    tests: ['src/tenants/guard/guard.test.ts'],
  },
  {
    name: 'transaction not compared with the context',
    story: 'A retained client reads rows of one tenant in the context of another.',
    file: CLIENT,
    replace: '      this.#assertSame(transaction)\n      if (!transaction.connection) {',
    by: '      if (!transaction.connection) {',
    tests: CLIENT_TESTS,
  },
  {
    name: 'pool without a client class',
    story: 'A library with another copy of pg creates clients outside the pool.',
    file: 'tenants/handles/pg-pool.ts',
    replace: '{ ...REFUSED_SETTINGS, Client: clientClass(sourceOf) }',
    by: '{ ...REFUSED_SETTINGS }',
    tests: CLIENT_TESTS,
  },
  {
    name: 'handles without refused settings',
    story: 'A library that reads the settings of a handle connects as the owner, by PGHOST and PGUSER.',
    file: 'tenants/handles/rejected-settings.ts',
    replace: `  host: 'use-the-handle.tenantry.invalid',\n  port: 1,\n  user: 'use-the-handle',\n  database: 'use-the-handle',\n`,
    by: '',
    tests: CLIENT_TESTS,
  },
  {
    name: 'a client without refused settings',
    story: 'A library that uses a client as its configuration connects as the owner.',
    file: CLIENT,
    replace: '    rejectSettings(this)\n',
    by: '',
    tests: ['src/tenants/handles/rejected-settings.test.ts'],
  },
  {
    name: 'a pool makes clients of the module',
    story: 'Prisma merges queries of two tenants on its own pool.',
    file: 'tenants/handles/pg-module.ts',
    replace: `if (typeof config === 'object' && 'Client' in config) {`,
    by: 'if (false) {',
    tests: ['src/tenants/handles/rejected-settings.test.ts'],
  },
  {
    name: 'failed begin forgotten',
    story: 'A transaction whose first statement was rejected commits only the second one.',
    file: CLIENT,
    replace: '      transaction.isFailed = true\n',
    by: '',
    tests: CLIENT_TESTS,
  },
]
