/**
 * Determines the statements that make an existing schema the storage of a tenant, and those that undo it. Independent
 * of the database: it compares the facts of the catalog with the rules of `doctor --prove` (audit/schema-rules.ts).
 *
 * - The role of `url` becomes the owner of all objects. The former owners keep their rights on rows, so the former
 *   application continues to run with its own role.
 * - Only the owner may create objects in the schema, triggers on its tables and references to them: their functions
 *   would run with the rights of the role of `url` in the next migration or import.
 * - PUBLIC loses its rights on the schema, its tables and sequences: otherwise every tenant would have them.
 * - The scope role receives the rights that it has in a new schema of a tenant (roles/grants.ts).
 */
import pg from 'pg'
import {
  afterOwnerChange,
  PUBLIC,
  type RequiredRight,
  type Right,
  type RightTarget,
  rightStatements,
  rights,
} from './rights.ts'
import type { DefaultRights, ObjectFacts, OwnFacts, SchemaFacts } from './schema-facts.ts'

/** The roles of an adoption. */
export interface Roles {
  /** The role of `url`. */
  readonly owner: string
  readonly scope: string
  /** Rights of the scope role on an object of shared tables; absent: those in a schema of one tenant, also on new objects. */
  readonly scopeRights?: (object: ObjectFacts) => readonly string[]
}

/** The part of the facts that a release restores. Stored as JSON. */
export type RecordedRights = Pick<OwnFacts, 'owner' | 'rights' | 'objects' | 'defaults'>

const READ_AND_WRITE = ['SELECT', 'INSERT', 'UPDATE', 'DELETE']
const SCOPE_RIGHTS: Readonly<Record<string, readonly string[]>> = {
  table: READ_AND_WRITE,
  sequence: ['USAGE', 'SELECT'],
  routine: ['EXECUTE'],
}
const KINDS_OF_TABLES = new Set(['table', 'view', 'materialized view', 'foreign table'])
/** Stands for the owner of the present database. */
const OWNER_OF_DATABASE = 'pg_database_owner'
/** Kinds whose rights of PUBLIC are revoked. A function or type gives no rows. */
const CLOSED_TO_PUBLIC = new Set(['table', 'sequence', 'schema'])

/** Rights with which a role can make the owner execute its code, or prevent changes of the structure. */
const ONLY_OF_OWNER = new Set(['CREATE', 'TRIGGER', 'REFERENCES'])

/** The class of an object in GRANT. */
const grantKind = (kind: string): string => (KINDS_OF_TABLES.has(kind) ? 'table' : kind)
const keywordOf = (kind: string): string => (kind === 'statistics object' ? 'statistics' : kind)
const targetOf = ({ kind, name }: Pick<ObjectFacts, 'kind' | 'name'>): RightTarget => ({
  on: `on ${grantKind(kind)} ${name}`,
})
const ownerStatement = (kind: string, name: string, owner: string): string =>
  `alter ${keywordOf(kind)} ${name} owner to ${pg.escapeIdentifier(owner)}`

/** Types of default privileges that the plan sets, with the rights of the scope role on new objects. */
const DEFAULTS: Readonly<
  Record<string, { readonly word: string; readonly kind: string; readonly all: readonly string[] }>
> = {
  r: { word: 'tables', kind: 'table', all: READ_AND_WRITE },
  S: { word: 'sequences', kind: 'sequence', all: ['USAGE', 'SELECT', 'UPDATE'] },
  f: { word: 'functions', kind: 'routine', all: ['EXECUTE'] },
}

/** Schemas of a backoffice, its jobs, shared tables, records, and those of imports and staging. */
export const isOfTenantry = (schema: string): boolean => /^(multitenancy|tenantry)/.test(schema)

const isReserved = (schema: string): boolean =>
  /^pg_/.test(schema) || ['information_schema', 'public'].includes(schema) || isOfTenantry(schema)

/** Form of the names that schema-pg generates. */
export const GENERATED = /^t\d+_/

/** Reasons why the schema cannot be adopted, without those of its structure. */
export function reasonsAgainst(
  schema: string,
  facts: SchemaFacts,
  roles: Roles,
  { isWholeDatabase }: { readonly isWholeDatabase: boolean },
): string[] {
  const { owner, scope } = roles
  const isTenants = facts.defaults.some(({ rights }) => rights.some(({ grantee }) => grantee === scope))
  const granted = [facts.rights, ...facts.objects.map((one) => one.rights ?? [])].flat()
  const fixed = new Set([facts.owner, owner, ...facts.objects.map((one) => one.owner)])
  const byOthers = granted.filter(({ grantee, grantor }) => [PUBLIC, scope].includes(grantee) && !fixed.has(grantor))
  return [
    ...(isReserved(schema) && !(isWholeDatabase && schema === 'public')
      ? [`the schema "${schema}" is reserved: rename it first, with alter schema … rename to`]
      : []),
    ...(GENERATED.test(schema) && !isWholeDatabase
      ? [`the name of the schema "${schema}" has the form of a tenant's: rename it`]
      : []),
    ...(facts.isKnown || isTenants ? [`the schema "${schema}" is the storage of a tenant`] : []),
    ...facts.otherOwners.map(
      (role) => `objects belong to the role "${role}", and the role of \`url\` is not a member of it: grant it first`,
    ),
    ...facts.extensions.map(
      (name) => `the extension "${name}" is in the schema: move it with alter extension … set schema`,
    ),
    ...facts.referrers.map((object) => `the ${object} of another schema depends on the schema "${schema}"`),
    ...facts.foreignRoutines.map(
      (routine) =>
        `the schema uses the ${routine}, whose owner could change it: it runs with the rights of the role of \`url\``,
    ),
    ...facts.references.map((object) => `the ${object} refers to the schema of another tenant`),
    ...usersOf(facts, roles)
      .filter((role) => facts.rolesOfScope.includes(role))
      .map((role) => `the scope role of all tenants is a member of the role "${role}": revoke "${role}" from it`),
    ...[...new Set(byOthers.map(({ grantor }) => grantor))].map(
      (role) => `the role "${role}" has granted rights to PUBLIC or to the scope role: revoke them as this role`,
    ),
  ]
}

/** Facts that do not prevent the adoption. @param creatorsInPublic owners that may create objects in the schema `public` */
export function warningsAbout(facts: OwnFacts, { owner, scope }: Roles, creatorsInPublic: readonly string[]): string[] {
  const all = [facts.rights, ...facts.objects.flatMap((one) => [one.rights ?? [], ...one.columns.map((c) => c.rights)])]
  const roles = new Set(all.flat().map(({ grantee }) => grantee))
  const owners = formerOwners(facts, owner)
  const others = [...roles].filter((role) => ![PUBLIC, owner, scope, ...owners].includes(role)).sort()
  const isPublic = facts.objects.some(
    ({ kind, rights }) => CLOSED_TO_PUBLIC.has(grantKind(kind)) && rights?.some(({ grantee }) => grantee === PUBLIC),
  )
  return [
    ...owners.map(
      (role) =>
        `the role "${role}" keeps its rights on rows, and can no longer change the structure: stop its migrations`,
    ),
    ...creatorsInPublic.map(
      (role) => `the role "${role}" may create objects in the schema "public" of this database: revoke CREATE from it`,
    ),
    ...others.map((role) => `the role "${role}" keeps its rights until they are revoked`),
    ...(isPublic || facts.rights.some(({ grantee }) => grantee === PUBLIC)
      ? ['rights of PUBLIC are revoked: roles that have only these lose access']
      : []),
  ]
}

const formerOwners = (facts: RecordedRights, owner: string): string[] =>
  [...new Set([facts.owner, ...facts.objects.map((one) => one.owner)])]
    .filter((role) => role !== owner && role !== OWNER_OF_DATABASE)
    .sort()

/** Roles with rights on objects of the schema, other than its owners. */
const grantees = (facts: RecordedRights, { owner, scope }: Roles): string[] => {
  const all = facts.objects.flatMap((one) => [...(one.rights ?? []), ...one.columns.flatMap(({ rights }) => rights)])
  const roles = new Set(all.map(({ grantee }) => grantee))
  return [...roles].filter((role) => ![PUBLIC, owner, scope, OWNER_OF_DATABASE].includes(role)).sort()
}

/** Roles of the former application: owners and others. */
export const usersOf = (facts: RecordedRights, roles: Roles): string[] =>
  [...new Set([...formerOwners(facts, roles.owner), ...grantees(facts, roles)])].sort()

/** All statements of the adoption, in order: owners first, because rights are granted by the owner. */
export function adoptionStatements(schema: string, facts: OwnFacts, roles: Roles): string[] {
  const { owner, scope } = roles
  const name = pg.escapeIdentifier(schema)
  const former = formerOwners(facts, owner)
  const isPublic = facts.rights.some(({ grantee, privilege }) => grantee === PUBLIC && privilege === 'USAGE')
  const viaPublic = isPublic ? grantees(facts, roles) : []
  const onSchema = [
    ...rights(owner, ['USAGE', 'CREATE']),
    ...afterOwnerChange(facts.rights, facts.owner, owner).filter(mayKeep('schema', roles)),
    ...[scope, ...former, ...viaPublic].flatMap((role) => rights(role, ['USAGE'])),
  ]
  return [
    ...(facts.owner === owner ? [] : [ownerStatement('schema', name, owner)]),
    ...facts.objects.flatMap((object) => changedOwner(object, owner)),
    ...rightStatements(
      { on: `on schema ${name}` },
      owner,
      afterOwnerChange(facts.rights, facts.owner, owner),
      onSchema,
    ),
    ...facts.objects.flatMap((object) => rightsOfObject(object, roles)),
    ...Object.entries(roles.scopeRights ? {} : DEFAULTS).flatMap(([type, { all, kind }]) => {
      const present = defaultsOf(facts.defaults, type, owner)
      const kept = present.filter(mayKeep(kind, roles))
      const ofFormer = type === 'f' ? [] : former.flatMap((role) => rights(role, all))
      const required = [...kept, ...rights(scope, SCOPE_RIGHTS[kind] ?? []), ...ofFormer]
      return defaultStatements(name, type, owner, present, required)
    }),
  ]
}

const changedOwner = ({ kind, name, owner, followsTable }: ObjectFacts, to: string): string[] =>
  owner === to || followsTable ? [] : [ownerStatement(kind, name, to)]

/** Whether a right stays on an object of this kind. */
const mayKeep =
  (kind: string, { owner, scope }: Roles) =>
  ({ grantee, privilege }: RequiredRight): boolean =>
    grantee === owner ||
    (grantee !== scope && !(CLOSED_TO_PUBLIC.has(kind) && grantee === PUBLIC) && !ONLY_OF_OWNER.has(privilege))

function rightsOfObject(object: ObjectFacts, roles: Roles): string[] {
  const { owner, scope } = roles
  const target = targetOf(object)
  const kind = grantKind(object.kind)
  const isKept = mayKeep(kind, roles)
  const ofFormer = (all: readonly Right[]): RequiredRight[] =>
    object.owner === owner
      ? []
      : all
          .filter(({ grantee, privilege }) => grantee === object.owner && !ONLY_OF_OWNER.has(privilege))
          .map((right) => ({ ...right, isGrantable: false }))
  const current = afterOwnerChange(object.rights ?? [], object.owner, owner)
  const own = SCOPE_RIGHTS[kind] ?? []
  const required = [
    ...rights(owner, own),
    ...current.filter(isKept),
    ...ofFormer(object.rights ?? []),
    ...rights(scope, roles.scopeRights?.(object) ?? own),
  ]
  return [
    ...(object.rights ? rightStatements(target, owner, current, required) : []),
    ...object.columns.flatMap(({ column, rights: all }) => {
      const now = afterOwnerChange(all, object.owner, owner)
      return rightStatements({ ...target, column }, owner, now, [...now.filter(isKept), ...ofFormer(all)])
    }),
  ]
}

/** All statements of the release: the recorded owners and rights. New objects receive the recorded owner of the schema. */
export function releaseStatements(
  schema: string,
  present: RecordedRights,
  recorded: RecordedRights,
  { owner, scope }: Roles,
): string[] {
  const name = pg.escapeIdentifier(schema)
  const before = new Map(recorded.objects.map((object) => [`${object.kind} ${object.name}`, object]))
  const objects = present.objects.map((object) => {
    const record = before.get(`${object.kind} ${object.name}`)
    return { object, record, owner: record?.owner ?? recorded.owner }
  })
  // A new owner needs the right to create objects in the schema.
  const creators = new Set(objects.map((one) => one.owner).filter((role) => ![owner, recorded.owner].includes(role)))
  const onSchema = afterOwnerChange(present.rights, present.owner, recorded.owner)
  const creating = [
    ...onSchema,
    ...[...creators]
      .flatMap((role) => rights(role, ['USAGE', 'CREATE']))
      .map((right) => ({ ...right, grantor: recorded.owner })),
  ]
  const target = { on: `on schema ${name}` }
  return [
    ...Object.keys(DEFAULTS).flatMap((type) =>
      defaultStatements(
        name,
        type,
        owner,
        defaultsOf(present.defaults, type, owner),
        defaultsOf(recorded.defaults, type, owner),
      ),
    ),
    ...(present.owner === recorded.owner ? [] : [ownerStatement('schema', name, recorded.owner)]),
    ...rightStatements(target, recorded.owner, onSchema, creating),
    ...objects.flatMap((one) => changedOwner(one.object, one.owner)),
    ...objects.flatMap((one) => restoredRights(one.object, one.record, one.owner, scope)),
    ...rightStatements(target, recorded.owner, creating, recorded.rights),
  ]
}

function restoredRights(object: ObjectFacts, record: ObjectFacts | undefined, owner: string, scope: string): string[] {
  const target = targetOf(object)
  const current = afterOwnerChange(object.rights ?? [], object.owner, owner)
  const required = record?.rights ?? current.filter(({ grantee }) => grantee !== scope)
  return [
    ...(object.rights ? rightStatements(target, owner, current, required) : []),
    ...object.columns.flatMap(({ column, rights: all }) => {
      const before = record?.columns.find((one) => one.column === column)?.rights ?? []
      return rightStatements({ ...target, column }, owner, afterOwnerChange(all, object.owner, owner), before)
    }),
  ]
}

const defaultsOf = (all: readonly DefaultRights[], type: string, role: string): readonly Right[] =>
  all.find((one) => one.type === type && one.role === role)?.rights ?? []

const defaultStatements = (
  schema: string,
  type: string,
  owner: string,
  present: readonly Right[],
  required: readonly RequiredRight[],
): string[] =>
  rightStatements(
    { on: `on ${DEFAULTS[type]?.word}`, prefix: `alter default privileges in schema ${schema} ` },
    owner,
    present,
    required,
  )
