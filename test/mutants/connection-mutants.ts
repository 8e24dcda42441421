// biome-ignore-all lint/suspicious/noTemplateCurlyInString: what is quoted is source
/** Mutants of shared connections, the login, and the path from a tenant's id to its storage. */
import type { SourceMutant } from './mutant.ts'

const CONNECTIONS = 'drivers/isolation/connections/pool.ts'
const IDLE_CLIENTS = 'drivers/isolation/connections/idle-clients.ts'
const LOGIN_CLIENTS = 'drivers/isolation/roles/login-clients.ts'
const SETTINGS_TESTS = ['src/drivers/isolation/scope/session-settings.test.ts']
const REPAIR_TESTS = ['src/drivers/isolation/roles/login-repair.test.ts']
const LOGIN_TESTS = ['src/drivers/isolation/roles/tenant-login.test.ts']
const SOURCE_TESTS = ['src/tenants/handles/router.test.ts']
const FENCE_TESTS = ['src/tenants/lifecycle/fences.test.ts']
const REGISTRY_TESTS = ['src/tenants/registry/registry.test.ts', 'src/tenants/registry/tenant-cache.test.ts']

export const CONNECTION_MUTANTS: readonly SourceMutant[] = [
  {
    name: 'a client lent twice',
    story: 'An idle connection is lent and stays in the list of idle ones: two tenants use it concurrently.',
    file: IDLE_CLIENTS,
    replace: 'last < 0 ? clients.splice(-1) : clients.splice(last, 1)',
    by: 'last < 0 ? clients.slice(-1) : clients.slice(last, last + 1)',
  },
  {
    name: 'destroyed ones used on',
    story: 'A connection that must be destroyed is lent again.',
    file: CONNECTIONS,
    replace: 'if (destroy || this.#isClosed || ',
    by: 'if (this.#isClosed || ',
  },
  {
    name: 'budget free before the socket is closed',
    story: 'The server has more connections than the budget permits.',
    file: CONNECTIONS,
    replace: '    this.#ending++\n    const releasePermit',
    by: '    this.#ending++\n    this.#total--\n    const releasePermit',
    tests: ['src/drivers/isolation/connections/pool.test.ts'],
  },
  {
    name: 'one tenant may have them all',
    story: 'A noisy tenant takes every connection, and other tenants wait.',
    file: CONNECTIONS,
    replace: '(this.#inUse.get(tenantId) ?? 0) < this.#options.limits.perTenant',
    by: '(this.#inUse.get(tenantId) ?? 0) < this.#options.limits.max',
    tests: ['src/drivers/isolation/connections/pool.test.ts'],
  },
  {
    name: 'a privileged login accepted',
    story: 'Tenant queries run as a superuser, which bypasses every policy.',
    file: LOGIN_CLIENTS,
    replace: 'await rejectPrivilegedRole(client, scopeRole)',
    by: '',
    tests: LOGIN_TESTS,
  },
  {
    name: 'a login that inherits accepted',
    story: 'The login has the rights of the scope role without SET ROLE.',
    file: 'drivers/isolation/roles/login-rights.ts',
    replace: `when rolname = $1 and pg_has_role(session_user, oid, 'usage')`,
    by: 'when rolname = $1 and false',
  },
  {
    name: 'settings of the login taken over',
    story:
      'Sessions start with settings that a tenant has set for the login: alter role current_user set standard_conforming_strings = off.',
    file: LOGIN_CLIENTS,
    replace: 'return this.#placement.pooler ? url : withSettings(url, settings)',
    by: 'return url',
    tests: SETTINGS_TESTS,
  },
  {
    name: 'role of the login taken over',
    story: 'Sessions start in the scope role, which a tenant has set for the login: an unscoped statement reads rows.',
    file: 'drivers/isolation/scope/session-settings.ts',
    replace: `{ role: 'none', 'app.tenant_id': '' }`,
    by: '{}',
    tests: SETTINGS_TESTS,
  },
  {
    name: 'fixed settings accepted in a configuration',
    story: 'A placement switches row_security off for its sessions.',
    file: 'drivers/isolation/scope/session-settings.ts',
    replace: 'Object.hasOwn({ ...FIXED, ...NOT_LISTED }, name.toLowerCase())',
    by: 'false',
    tests: SETTINGS_TESTS,
  },
  {
    name: 'configured settings left out behind a pooler',
    story: 'Sessions behind PgBouncer lack the configured work_mem.',
    file: LOGIN_CLIENTS,
    replace: 'pooledSettings(settings, this.#placement.settings)',
    by: 'pooledSettings(settings)',
    tests: SETTINGS_TESTS,
  },
  {
    name: 'a refused login left as it is',
    story: 'A tenant changes the password of the login, and no tenant can connect.',
    file: LOGIN_CLIENTS,
    replace: 'if (!restores || !isPasswordRejection(error)) throw error',
    by: 'throw error',
    tests: REPAIR_TESTS,
  },
  {
    name: 'defaults of the login not compared',
    story: 'Settings of a tenant for the login remain, and apply to connections without the startup packet.',
    file: 'drivers/isolation/roles/login-state.ts',
    replace: 'return { isThere: true, isRejected, defaults: rows }',
    by: 'return { isThere: true, isRejected, defaults: rows.slice(rows.length) }',
    tests: REPAIR_TESTS,
  },
  {
    name: 'storage made by several at once',
    story: 'The lock that serializes the creation of a storage is left out.',
    file: 'drivers/isolation/transactions/owner-transaction.ts',
    replace: 'begin; select pg_advisory_xact_lock(${lockOf(locator)});',
    by: 'begin; select 1;',
  },
  {
    name: 'no tenant is "" and not an error',
    story: 'current_tenant() returns the empty text outside a scope: an INSERT succeeds without a tenant.',
    file: 'drivers/isolation/migrations/postgres-migrator.ts',
    replace: `if coalesce(tenant, '') = '' then`,
    by: 'if false then',
  },
  {
    name: 'one handle for all tenants',
    story: 'The cache of handles is keyed without the tenant.',
    file: 'tenants/handles/handles.ts',
    replace: `    const kept = this.#kept.get(id)
    const hasStorage = kept?.locator === location.locator`,
    by: `    const [kept] = [...this.#kept.values()]
    const hasStorage = kept !== undefined`,
    tests: SOURCE_TESTS,
  },
  {
    name: 'a place kept for ever',
    story: 'A handle continues to use the first storage location of its tenant.',
    file: 'tenants/handles/router.ts',
    replace: 'usable(id, registry.peek(id) ?? (await registry.find(id)))',
    by: '(((parts as any).first ??= new Map()).get(id) ?? (parts as any).first.set(id, usable(id, registry.peek(id) ?? (await registry.find(id)))).get(id))',
    tests: SOURCE_TESTS,
  },
  {
    name: 'status not looked at',
    story: 'A handle serves a tenant that is suspended or deleted.',
    file: 'tenants/handles/router.ts',
    replace: '  assertUsable(located.tenant)\n',
    by: '',
    tests: SOURCE_TESTS,
  },
  {
    name: 'context and handle need not agree',
    story: 'Code in the context of one tenant uses the handle of another.',
    file: 'tenants/handles/router.ts',
    replace: '  assertAgrees(id)\n',
    by: '',
    tests: SOURCE_TESTS,
  },
  {
    name: 'context and tenant need not agree',
    story: 'assertAgrees accepts every tenant.',
    file: 'tenants/handles/agreement.ts',
    replace: 'if (tenantId === undefined || tenantId === null || tenantId === id) return',
    by: 'return',
    tests: ['src/tenants/handles/tenant-context.test.ts'],
  },
  {
    name: 'tried again where it was',
    story: 'A process that meets the fence of a tenant’s former storage uses that storage again.',
    file: 'tenants/handles/router.ts',
    replace: 'circuits.run(location, () => work(storage.driver(location.isolation), location))',
    by: 'circuits.run(located.location, () => work(driver, located.location))',
    tests: SOURCE_TESTS,
  },
  {
    name: 'never asked again at a fence',
    story: 'A process with an outdated registry cache does not update it.',
    file: 'tenants/registry/tenant-cache.ts',
    replace: 'return this.#load({ ...this.#loadOf(id), before: () => undefined })',
    by: 'return this.find(id)',
    tests: [...REGISTRY_TESTS, ...SOURCE_TESTS],
  },
  {
    name: 'an old read kept over a change',
    story: 'A value that was read before a change is cached after it.',
    file: 'tenants/registry/tenant-cache.ts',
    replace: 'if (generation === this.#generation) keep(located, started)',
    by: 'keep(located, started)',
    tests: REGISTRY_TESTS,
  },
  {
    name: 'a domain’s last owner',
    story: 'A removed domain still resolves to its former tenant.',
    file: 'tenants/registry/tenant-cache.ts',
    replace: 'return entry?.located.tenant.domains.includes(domain) ? entry : undefined',
    by: 'return entry',
    tests: REGISTRY_TESTS,
  },
  {
    name: 'no fence when a tenant is suspended',
    story: 'A process without the notification of a suspension continues to serve.',
    file: 'tenants/lifecycle/fences.ts',
    replace: '    if (!isKeptOut(row)) return\n    try {',
    by: '    if (row) return\n    try {',
    tests: FENCE_TESTS,
  },
  {
    name: 'a fence is never lifted',
    story: 'The storage of a reactivated tenant rejects its statements.',
    file: 'tenants/lifecycle/fences.ts',
    replace: '      this.#kernel.database.afterCommit(() => this.repair(row.id))\n',
    by: '',
    tests: FENCE_TESTS,
  },
  {
    name: 'the fence of a suspended tenant mended',
    story: 'A fence that a process meets is lifted, regardless of the tenant’s status.',
    file: 'tenants/lifecycle/fences.ts',
    replace: '      if (!isLetIn(row)) return false\n',
    by: '',
    tests: ['src/tenants/lifecycle/fences.race.test.ts', ...FENCE_TESTS],
  },
]
