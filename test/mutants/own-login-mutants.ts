// biome-ignore-all lint/suspicious/noTemplateCurlyInString: what is quoted is source
/** Mutants of separate logins of tenants with their own databases. */
import type { SourceMutant } from './mutant.ts'

const ROLE = 'drivers/isolation/roles/own-login-role.ts'
const KEPT = 'drivers/isolation/roles/kept-logins.ts'
const DATABASE = 'drivers/isolation/server/tenant-database.ts'
const CLIENTS = 'drivers/isolation/roles/login-clients.ts'
const onDatabase = { on: ['database-pg, batch'] }
const byAttacks = { tests: ['src/drivers/isolation/roles/own-login.test.ts'] }
const byLifecycle = { tests: ['src/drivers/isolation/roles/own-login.lifecycle.test.ts'] }
const byDoctor = { tests: ['src/drivers/isolation/roles/own-login.doctor.test.ts'] }

export const OWN_LOGIN_MUTANTS: readonly SourceMutant[] = [
  {
    name: 'own login: not made',
    story: 'All tenants share the login of the placement: SQL of one changes its password for all.',
    file: ROLE,
    replace: 'if (!ownLogins?.areMade) return\n  const',
    by: 'if (ownLogins) return\n  const',
    ...byAttacks,
  },
  {
    name: 'own login: made and not used',
    story: 'Connections use the shared login.',
    file: CLIENTS,
    replace: 'const login = ownPassword === undefined ? tenantUrl',
    by: 'const login = true ? tenantUrl',
    ...onDatabase,
  },
  {
    name: 'own login: the shared login is let in',
    story: 'The database of a tenant admits the login that tenants of other databases use.',
    file: ROLE,
    replace: '=== undefined ? server.login : name',
    by: '=== undefined ? server.login : server.login',
    ...onDatabase,
  },
  {
    name: 'own login: PUBLIC is let in',
    story: 'Every login of a tenant connects to the database of every other.',
    file: DATABASE,
    replace: 'to ${pg.escapeIdentifier(login)}`)',
    by: 'to ${pg.escapeIdentifier(login)}, public`)',
    ...byAttacks,
  },
  {
    name: 'own login: inherits',
    story: 'The login has the rights of the scope role without a scope.',
    file: ROLE,
    replace: 'nobypassrls noinherit',
    by: 'nobypassrls inherit',
    ...onDatabase,
  },
  {
    name: 'own login: may make roles',
    story: 'SQL of a tenant grants itself the logins of other tenants.',
    file: ROLE,
    replace: 'nocreatedb nocreaterole',
    by: 'nocreatedb createrole',
    ...byLifecycle,
  },
  {
    name: 'own login: a role of another is taken over',
    story: 'An unrelated role with the name of a database gets another password.',
    file: ROLE,
    replace: 'if (isThere && !isOurs) throw',
    by: 'if (false) throw',
    ...byLifecycle,
  },
  {
    name: 'own login: role left by a purge',
    story: 'The login of a purged tenant can still log in.',
    file: ROLE,
    replace: 'await client.query(`drop role if exists ${pg.escapeIdentifier(name)}`)',
    by: '',
    ...byAttacks,
  },
  {
    name: 'own login: password left by a purge',
    story: 'The password of a purged tenant remains in the backoffice.',
    file: ROLE,
    replace: 'await ownLogins.remove(name)',
    by: '',
    ...byAttacks,
  },
  {
    name: 'own login: password replaced by a second run',
    story: 'Of two concurrent provisioning processes, one keeps a password that the role does not have.',
    file: KEPT,
    replace: ".onConflict((conflict) => conflict.columns(['placement', 'locator']).doNothing())",
    by: ".onConflict((conflict) => conflict.columns(['placement', 'locator']).doUpdateSet(row))",
    ...byLifecycle,
  },
  {
    name: 'own login: passwords of any database',
    story: 'An encrypted password can be decrypted in the row of another tenant.',
    file: 'tenants/isolation/own-logins.ts',
    replace: '`${TABLE} ${placement} ${database}`',
    by: '`${TABLE}`',
    ...byAttacks,
  },
  {
    name: 'own login: its refusal counts for the server',
    story: 'A tenant with a wrong password opens the circuit of all tenants of the server.',
    file: 'tenants/circuits/classify.ts',
    replace: '  if (error instanceof OwnLoginRejected) return TENANT_FAILED\n',
    by: '  if (error instanceof OwnLoginRejected) return SERVER_FAILED\n',
    ...byAttacks,
  },
  {
    name: 'own login: restored in the name of the shared one',
    story: 'A tenant that changes its password locks itself out permanently.',
    file: CLIENTS,
    replace: 'this.#restored(password === undefined ? undefined : database)',
    by: 'this.#restored(undefined)',
    ...byAttacks,
  },
  {
    name: 'own login: a closed database is opened with it',
    story: 'The doctor repairs the login of a suspended tenant, and admits it.',
    file: DATABASE,
    replace: 'if (login === server.login || !(await isOpen(server, client, name))) return',
    by: 'if (login === server.login) return',
    ...byLifecycle,
  },
  {
    name: 'own login: the shared login stays',
    story: 'A tenant has its own login, and its database still admits the shared login.',
    file: DATABASE,
    replace: 'revoke connect on database ${database} from ${pg.escapeIdentifier(server.login)}`',
    by: 'select 1`',
    ...byLifecycle,
  },
  {
    name: 'own login: members of it not found',
    story: 'The login of one tenant may become that of another, and doctor --prove reports nothing.',
    file: 'drivers/isolation/audit/own-login-rules.ts',
    replace: 'where m.member <> owner and not member.rolsuper',
    by: 'where false',
    ...byDoctor,
  },
]
