/**
 * Determines the changes that make an existing database the storage of a tenant, in addition to those of its schema
 * (schema-plan.ts), and the changes that undo them. All of them are part of one transaction in that database.
 *
 * - The schema of the application is renamed to the schema of tenants. A search path of the database replaces its name,
 *   so statements of the application without a schema continue to find its tables.
 * - PUBLIC loses its rights on the database. Roles of the application receive those that they had through PUBLIC.
 * - A setting of the database names the installation: the inventory of a server finds adopted databases by it.
 */
import pg from 'pg'
import { INSTALLATION_SETTING } from '../roles/installation-setting.ts'
import { publicFunctions } from '../roles/public-rights.ts'
import { afterOwnerChange, PUBLIC, type Right, rightStatements, rights } from './rights.ts'
import { isOfTenantry, type Roles } from './schema-plan.ts'
import { parseSearchPath, searchPathValue } from './search-path.ts'
import type { AdoptableStorage } from './storage.ts'

const RESERVED = ['postgres', 'template0', 'template1']
/** Form of the names that database-pg generates. */
const GENERATED = /^t[0-9a-z]+_[0-9a-z]{6}_/

export interface DatabaseFacts {
  readonly name: string
  readonly owner: string
  readonly rights: readonly Right[]
  readonly isTemplate: boolean
  /** Whether it is the database of the placement or of a tenant. */
  readonly isInUse: boolean
  /** Whether a role has the name of the database. */
  readonly hasRole: boolean
  readonly mayTake: boolean
  /** Whether the role of `url` may create the login of the tenant. */
  readonly mayMakeRoles: boolean
  /** Text of its setting for all roles; null without one. */
  readonly searchPath: string | null
  readonly schemas: readonly string[]
  /** Those of `schemas` with objects, other than objects of extensions. */
  readonly occupied: readonly string[]
  readonly eventTriggers: readonly string[]
  readonly hasLargeObjects: boolean
  /** As of `placementIdentities`. */
  readonly identity: string
  /** Functions with effects beyond a tenant's scope that PUBLIC may execute. */
  readonly publicFunctions: readonly string[]
}

/** The part of the facts that a release restores. */
export type RecordedDatabase = Pick<DatabaseFacts, 'owner' | 'rights' | 'searchPath' | 'publicFunctions'>

const EXPLODED = `(select coalesce(json_agg(json_build_object(
    'grantee', case a.grantee when 0 then '' else pg_get_userbyid(a.grantee) end, 'grantor', pg_get_userbyid(a.grantor),
    'privilege', a.privilege_type, 'isGrantable', a.is_grantable) order by a.grantee, a.privilege_type, a.grantor), '[]')
  from aclexplode(coalesce(datacl, acldefault('d', datdba))) a)`

/** @param client in that database */
export async function readDatabase(client: pg.ClientBase, { server }: AdoptableStorage): Promise<DatabaseFacts> {
  const own = decodeURIComponent(new URL(server.placement.url).pathname.slice(1))
  const { rows } = await client.query(
    `select datname as name, pg_get_userbyid(datdba) as owner, ${EXPLODED} as rights, datistemplate as "isTemplate",
       datname = $2 or exists (select from aclexplode(datacl) where grantee = (select oid from pg_roles where rolname = $1)) as "isInUse",
       exists (select from pg_roles where rolname = datname) as "hasRole", pg_has_role(current_user, datdba, 'usage') as "mayTake",
       (select rolcreaterole or rolsuper from pg_roles where rolname = current_user) as "mayMakeRoles",
       (select substr(setting, 13) from pg_db_role_setting, unnest(setconfig) setting
        where setdatabase = pg_database.oid and setrole = 0 and setting like 'search\\_path=%') as "searchPath",
       array(select nspname::text from pg_namespace where nspname !~ '^pg_' and nspname <> 'information_schema' order by 1) as schemas,
       array(select nspname::text from pg_namespace n where nspname !~ '^pg_' and nspname <> 'information_schema' and exists (
         select from pg_depend d where d.refclassid = 'pg_namespace'::regclass and d.refobjid = n.oid and d.deptype = 'n'
           and d.classid <> 'pg_extension'::regclass and not exists (
             select from pg_depend e where e.classid = d.classid and e.objid = d.objid and e.deptype = 'e')) order by 1) as occupied,
       array(select evtname::text from pg_event_trigger t where not exists (
         select from pg_depend where classid = 'pg_event_trigger'::regclass and objid = t.oid and deptype = 'e') order by 1) as "eventTriggers",
       exists (select from pg_largeobject_metadata) as "hasLargeObjects",
       (select system_identifier::text from pg_control_system()) || '/' || oid as identity,
       array(${publicFunctions(server.placement)}) as "publicFunctions"
     from pg_database where datname = current_database()`,
    [server.scopeRole, own],
  )
  return rows[0]
}

/** Identities of the databases of all placements, by placement; null if a server does not respond. */
export type PlacementIdentities = Readonly<Record<string, string | null>>

/** @param source schema of the application @param schema that of tenants */
export function databaseReasons(
  facts: DatabaseFacts,
  source: string,
  { server, schema }: AdoptableStorage,
  placements: PlacementIdentities,
): string[] {
  const { name, isTemplate, isInUse, hasRole, mayTake, owner, schemas, occupied } = facts
  const makesLogin = server.placement.ownLogins?.areMade === true
  const irregular = facts.searchPath === null ? [] : parseSearchPath(facts.searchPath).irregular
  return [
    ...Object.entries(placements).flatMap(([placement, identity]) => {
      if (identity === null) {
        return [`the server of the placement "${placement}" does not respond, so its database cannot be compared`]
      }
      return identity === facts.identity ? [`the database "${name}" is that of the placement "${placement}"`] : []
    }),
    ...(GENERATED.test(name) ? [`the name of the database "${name}" has the form of a tenant's: rename it`] : []),
    ...schemas
      .filter(isOfTenantry)
      .map((one) => `the database has the schema "${one}" of an installation of Tenantry: adopt another database`),
    ...occupied
      .filter((one) => one !== source && one !== schema && !isOfTenantry(one))
      .map(
        (one) =>
          `the schema "${one}" of the database has objects, and a deletion of the tenant drops them: remove them`,
      ),
    ...(facts.hasLargeObjects ? ['the database has large objects, which no backup of a tenant contains'] : []),
    ...facts.eventTriggers.map(
      (one) => `the event trigger "${one}" runs with the rights of the role of \`url\`: drop it`,
    ),
    ...irregular.map(
      (one) =>
        `the search path of the database has the name "${one}", which is no identifier: set it with quoted names`,
    ),
    ...(isInUse || RESERVED.includes(name) ? [`the database "${name}" is reserved, or the storage of a tenant`] : []),
    ...(isTemplate ? [`the database "${name}" is a template: alter database … is_template false`] : []),
    ...(makesLogin && hasRole ? [`a role has the name of the database "${name}": rename one of them`] : []),
    ...(mayTake
      ? []
      : [`the database belongs to the role "${owner}", and the role of \`url\` is not a member of it: grant it first`]),
    ...(source !== schema && schemas.includes(schema)
      ? [`the database has another schema "${schema}": rename it`]
      : []),
  ]
}

export function databaseWarnings(
  { schemas, publicFunctions }: DatabaseFacts,
  source: string,
  schema: string,
): string[] {
  const others = schemas.filter((name) => ![source, schema, 'public'].includes(name))
  return [
    ...others.map((name) => `the schema "${name}" is not part of the tenant: backups and moves do not contain it`),
    ...(source === schema ? [] : [`statements that name the schema "${source}" fail after the rename to "${schema}"`]),
    ...(publicFunctions.length > 0 ? ['PUBLIC loses the right to execute functions of large objects and signals'] : []),
    'a suspension ends the right of other roles to connect; grant it again after the activation',
  ]
}

export interface DatabaseStatements {
  /** Before those of the schema. */
  readonly before: readonly string[]
  readonly after: readonly string[]
  /** After the login was created. */
  readonly last: readonly string[]
}

/** @param users roles of the application */
export function databaseStatements(
  facts: DatabaseFacts,
  source: string,
  { server, schema }: AdoptableStorage,
  { owner, scope }: Roles,
  users: readonly string[],
  installation: string,
): DatabaseStatements {
  const name = pg.escapeIdentifier(facts.name)
  const current = afterOwnerChange(facts.rights, facts.owner, owner)
  const ofPublic = facts.rights.filter(({ grantee }) => grantee === PUBLIC).map(({ privilege }) => privilege)
  const former = facts.owner === owner ? [] : [facts.owner]
  const required = [
    ...rights(owner, ['CREATE', 'CONNECT', 'TEMPORARY']),
    ...current.filter(
      ({ grantee, privilege }) => grantee === owner || (![PUBLIC, scope].includes(grantee) && privilege !== 'CREATE'),
    ),
    ...[...users].flatMap((role) => rights(role, ofPublic)),
    ...former.flatMap((role) => rights(role, ['CONNECT', 'TEMPORARY'])),
    ...rights(scope, ['TEMPORARY']),
  ]
  const path = facts.searchPath === null ? ['$user', source] : parseSearchPath(facts.searchPath).names
  const login = server.placement.ownLogins?.areMade && facts.mayMakeRoles ? facts.name : server.login
  return {
    before: former.length === 0 ? [] : [`alter database ${name} owner to ${pg.escapeIdentifier(owner)}`],
    after: [
      ...(source === schema
        ? []
        : [`alter schema ${pg.escapeIdentifier(source)} rename to ${pg.escapeIdentifier(schema)}`]),
      ...rightStatements({ on: `on database ${name}` }, owner, current, required),
      ...facts.publicFunctions.map((routine) => `revoke execute on ${routine} from public`),
      ...(source === schema ? [] : [`alter database ${name} set search_path = ${searchPathValue([schema, ...path])}`]),
      `alter database ${name} set ${INSTALLATION_SETTING} = ${pg.escapeLiteral(installation)}`,
    ],
    last: [`grant connect on database ${name} to ${pg.escapeIdentifier(login)}`],
  }
}

/** After the release of the schema, which has its former name again. */
export function databaseRelease({ name, owner, rights: present }: DatabaseFacts, recorded: RecordedDatabase): string[] {
  const database = pg.escapeIdentifier(name)
  return [
    ...recorded.publicFunctions.map((routine) => `grant execute on ${routine} to public`),
    recorded.searchPath === null
      ? `alter database ${database} reset search_path`
      : `alter database ${database} set search_path = ${searchPathValue(parseSearchPath(recorded.searchPath).names)}`,
    `alter database ${database} reset ${INSTALLATION_SETTING}`,
    'drop schema tenantry cascade',
    ...(owner === recorded.owner ? [] : [`alter database ${database} owner to ${pg.escapeIdentifier(recorded.owner)}`]),
    ...rightStatements(
      { on: `on database ${database}` },
      recorded.owner,
      afterOwnerChange(present, owner, recorded.owner),
      recorded.rights,
    ),
  ]
}
