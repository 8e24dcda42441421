/**
 * Checks tables that all tenants share, without a database: which cannot be protected, and which repairs the others
 * need. Written here: the rules compare the catalog with the policies that Tenantry creates.
 *
 * Sequences are shared by all tenants. This is allowed: gaps reveal the number of other tenants' inserts, not their
 * values. A host can use random keys to avoid it. The row of a sequence would reveal more, so it is not readable.
 */
import pg from 'pg'
import {
  type Audience,
  formerDefinition,
  type Policy,
  policyDefinition,
  type Relation,
  type SchemaFacts,
  SHARED,
} from './sql.ts'
import { columnDefault, columnName, type TenantColumn } from './tenant-column.ts'

export interface Finding {
  /** `table "rows".notes` */
  readonly object: string
  readonly fault: string
  /** The action for the host. */
  readonly remedy: string
}

export interface Repair extends Finding {
  readonly statement: string
}

const OURS = /^tenantry_(tenant|owner)_/
const READ = ['SELECT']
const READ_AND_WRITE = ['DELETE', 'INSERT', 'SELECT', 'UPDATE']
const KINDS = { r: 'table', p: 'table', v: 'view', m: 'materialized view', f: 'foreign table', S: 'sequence' }

const isTable = ({ kind }: Relation): boolean => kind === 'r' || kind === 'p'
const isShared = (relation: Relation): boolean => isTable(relation) && relation.comment?.trim() === SHARED
export const isTenants = (relation: Relation): boolean => isTable(relation) && !isShared(relation)
const shownName = (schema: string, name: string): string =>
  `${pg.escapeIdentifier(schema)}.${pg.escapeIdentifier(name)}`

/** Objects that row level security cannot isolate; empty if all can be protected. */
export function faultsOf(schema: SchemaFacts): Finding[] {
  const faults: Finding[] = schema.relations.flatMap((relation) => {
    const object = `${KINDS[relation.kind]} ${shownName(schema.name, relation.name)}`
    return [
      ...faultsOfKind(relation, schema),
      ...(isTenants(relation) ? faultsOfTenantId(relation, schema.column) : []),
      ...(schema.column.isGiven ? [] : linksOf(relation, schema)),
      ...(isTable(relation) ? [...faultsOfTargets(relation, schema), ...faultsOfFamily(relation, schema)] : []),
      ...faultsOfPolicies(relation, schema),
    ].map(([fault, remedy]) => ({ object, fault, remedy }))
  })
  if (schema.scopeMayCreate) {
    faults.push({
      object: `schema ${pg.escapeIdentifier(schema.name)}`,
      fault: 'the role of tenants’ queries may create objects in it',
      remedy: 'revoke create on the schema from that role and from public',
    })
  }
  for (const name of schema.privilegedFunctions) {
    faults.push({
      object: `function ${name}`,
      fault:
        'is SECURITY DEFINER and its owner bypasses row level security, so a tenant’s call reads every tenant’s rows',
      remedy:
        'make it SECURITY INVOKER, give it to an owner that is neither superuser nor BYPASSRLS, or revoke EXECUTE from public and that role',
    })
  }
  return faults
}

/**
 * Keys and foreign keys without the tenant column, in tables of a former application. They reveal to a tenant whether
 * another one has a value, but no row.
 */
export const warningsOf = (schema: SchemaFacts): Finding[] =>
  schema.column.isGiven
    ? schema.relations.flatMap((relation) =>
        [...linksOf(relation, schema)].map(([fault, remedy]) => ({
          object: `${KINDS[relation.kind]} ${shownName(schema.name, relation.name)}`,
          fault,
          remedy,
        })),
      )
    : []

function* linksOf(relation: Relation, schema: SchemaFacts): Generator<FaultAndRemedy> {
  if (isTenants(relation)) yield* faultsOfKeys(relation, schema.column)
  if (isTable(relation)) yield* faultsOfForeignKeys(relation, schema)
}

type FaultAndRemedy = readonly [fault: string, remedy: string]

function* faultsOfKind(relation: Relation, schema: SchemaFacts): Generator<FaultAndRemedy> {
  const { kind, owner } = relation
  if (owner !== schema.owner) {
    yield [`belongs to "${owner}", not to the owner of the schema`, `alter its owner to "${schema.owner}"`]
  }
  if (kind === 'v' && !relation.isInvoker) {
    yield ['reads with the rights of its owner, past the policies', 'create it with (security_invoker = true)']
  }
  if (kind === 'm') {
    yield [
      'row level security does not apply to its stored rows',
      'use a table or a view with security_invoker, or a schema that tenants’ queries may not use',
    ]
  }
  if (kind === 'f')
    yield ['row level security does not apply to it', 'move it to a schema that tenants’ queries may not use']
  for (const rule of relation.rules) {
    yield [`the rule "${rule}" rewrites statements with the rights of the owner`, 'use a trigger instead']
  }
}

function* faultsOfTenantId({ tenantId }: Relation, column: TenantColumn): Generator<FaultAndRemedy> {
  const [name, filled] = [columnName(column), columnDefault(column)]
  const declared = `${name} ${column.type} not null default ${filled}`
  if (!tenantId) {
    return yield [
      `has no column ${name}`,
      // Adding the column with its default evaluates the default immediately, when no tenant is set.
      `create it with "${declared}" leading in every key, or declare it for all tenants: comment on table … is '${SHARED}'`,
    ]
  }
  const { type, isRequired, isDeterministic } = tenantId
  if (type !== column.type) yield [`${name} is ${type}`, `declare it "${declared}"`]
  if (!isRequired) yield [`${name} may be null`, `declare it "${declared}"`]
  if (tenantId.default !== filled) yield [`${name} does not default to ${filled}`, `declare it "${declared}"`]
  if (!isDeterministic) {
    yield [`${name} has a collation to which different ids may be equal`, 'give it a deterministic collation']
  }
}

function* faultsOfKeys({ keys, exclusions }: Relation, column: TenantColumn): Generator<FaultAndRemedy> {
  const tenant = columnName(column)
  for (const { name } of keys.filter(({ leads }) => !leads)) {
    yield [`the key "${name}" reveals whether another tenant has a value`, `make ${tenant} its first column, unchanged`]
  }
  for (const { name } of exclusions.filter(({ isScoped }) => !isScoped)) {
    yield [
      `the exclusion constraint "${name}" reveals whether another tenant has a value`,
      `add "${tenant} with =" to it`,
    ]
  }
}

const reveals = (name: string): string => `the foreign key "${name}" reveals, past the policies,`

function* faultsOfForeignKeys(relation: Relation, { relations, column }: SchemaFacts): Generator<FaultAndRemedy> {
  const tenant = columnName(column)
  for (const { name, target, shown, isScoped, isOwnId } of relation.foreignKeys) {
    const other = relations.find((one) => one.name === target)
    if (other && isTenants(other) && !isScoped && !(isOwnId && column.isGiven)) {
      yield [`${reveals(name)} whether another tenant has a row in ${shown}`, `let ${tenant} reference ${tenant} in it`]
    }
  }
}

function* faultsOfTargets(relation: Relation, { relations, column }: SchemaFacts): Generator<FaultAndRemedy> {
  for (const { name, target, shown, isOwnId } of relation.foreignKeys) {
    if (relations.some((one) => one.name === target) || (isOwnId && column.isGiven)) continue
    yield [
      `${reveals(name)} the content of ${shown}`,
      `create that table in this schema, with the comment '${SHARED}' if all tenants share it`,
    ]
  }
}

function* faultsOfFamily(relation: Relation, { relations }: SchemaFacts): Generator<FaultAndRemedy> {
  for (const { name, shown } of relation.relatives) {
    const other = relations.find((one) => one.name === name)
    if (!other) {
      yield [
        `inherits from or to ${shown}, whose rows would be reached past the policies`,
        'keep parents and children in this schema',
      ]
    } else if (isShared(relation) !== isShared(other)) {
      yield [
        `only one of it and ${shown} is declared for all tenants`,
        'give both the same comment: queries of one also read the other',
      ]
    }
  }
}

function* faultsOfPolicies(relation: Relation, { owner, column }: SchemaFacts): Generator<FaultAndRemedy> {
  const others = relation.policies.filter((one) => one.isPermissive && !OURS.test(one.name) && !isFormer(one, owner))
  for (const { name } of others) {
    yield [`the policy "${name}" extends the rows that a tenant may see`, 'drop it, or make it AS RESTRICTIVE']
  }
  if (isShared(relation) && relation.tenantId) {
    yield [`is declared for all tenants and has a column ${columnName(column)}`, 'remove the comment, or the column']
  }
}

/** Whether it is the unchanged policy for roles of the former application. */
const isFormer = ({ name, roles, kept }: Policy, owner: string): boolean =>
  roles.length > 0 && name === `${formerDefinition(roles, owner).prefix}_${kept}`

/** Differences from the required state that can be repaired; empty if there is no drift. */
export function repairsOf(schema: SchemaFacts, scopeRole: string): Repair[] {
  const role = pg.escapeIdentifier(scopeRole)
  const repairs = schema.relations.flatMap((relation) => {
    const name = shownName(schema.name, relation.name)
    const repair = (fault: string, statement: string): Repair =>
      repairOf(`${KINDS[relation.kind]} ${name}`, fault, statement)
    const wanted = rightsOf(relation)
    const found: Repair[] = []
    if (relation.isPublic) found.push(repair('PUBLIC has rights on it', `revoke all on ${name} from public`))
    if (relation.granted.join() !== wanted.join()) {
      const grant = `grant ${wanted.join(', ')} on ${name} to ${role}`
      found.push(
        repair('the role of tenants’ queries has other rights', `revoke all on ${name} from ${role}; ${grant}`),
      )
    }
    if (isTenants(relation)) {
      if (!relation.isSecured) found.push(repair('RLS is disabled', `alter table ${name} enable row level security`))
      if (!relation.isForced) found.push(repair('FORCE is missing', `alter table ${name} force row level security`))
    } else if (isShared(relation) && relation.isSecured && relation.policies.every(({ name }) => OURS.test(name))) {
      const off = `alter table ${name} disable row level security, no force row level security`
      found.push(repair('is shared by all tenants, but has row level security', off))
    }
    const wantsPolicies = isTenants(relation)
    return [
      ...found,
      ...policyRepairs(schema, relation, 'tenant', wantsPolicies ? scopeRole : undefined),
      ...policyRepairs(schema, relation, 'owner', wantsPolicies ? schema.owner : undefined),
    ]
  })
  if (schema.scopeMayUse) return repairs
  const name = pg.escapeIdentifier(schema.name)
  return [
    repairOf(
      `schema ${name}`,
      'the role of tenants’ queries may not use it',
      `grant usage on schema ${name} to ${role}`,
    ),
    ...repairs,
  ]
}

/** Repairs of the owner's policy only, on forced tables: sufficient for the owner's statements. */
export const ownerRepairsOf = (schema: SchemaFacts): Repair[] =>
  schema.relations
    .filter((relation) => isTenants(relation) && relation.isForced)
    .flatMap((relation) => policyRepairs(schema, relation, 'owner', schema.owner))

export function rightsOf(relation: Relation): readonly string[] {
  if (relation.kind === 'S') return ['USAGE']
  return isShared(relation) ? READ : READ_AND_WRITE
}

/** @param role of the policy; undefined if there must be no policy */
function policyRepairs(
  schema: SchemaFacts,
  relation: Relation,
  audience: Audience,
  role: string | undefined,
): Repair[] {
  const wanted = role === undefined ? undefined : policyDefinition(audience, role, schema.column)
  const isRight = ({ name, kept }: Policy) => name === `${wanted?.prefix}_${kept}`
  const there = relation.policies.filter(({ name }) => name.startsWith(`tenantry_${audience}_`))
  const name = shownName(schema.name, relation.name)
  const repair = (fault: string, statement: string) => repairOf(`table ${name}`, fault, statement)
  const dropped = there
    .filter((policy) => !isRight(policy))
    .map((policy) =>
      repair(
        `the policy "${policy.name}" was changed or is of another version`,
        `drop policy ${pg.escapeIdentifier(policy.name)} on ${name}`,
      ),
    )
  if (!wanted || there.some(isRight)) return dropped
  const create = `create policy ${wanted.prefix} on ${name} ${wanted.clauses}`
  return [...dropped, repair(`has no policy for its ${audience}`, create)]
}

const repairOf = (object: string, fault: string, statement: string): Repair => ({
  object,
  fault,
  statement,
  remedy: 'run the migrations of the placement again, which repairs it',
})
