/**
 * Determines the statements that make existing tables the shared tables of a placement, and those that undo it.
 * Independent of the database.
 *
 *   owners and rights (adoption/schema-plan.ts) ─► tenant column ─► policy of former roles ─► row level security (row-security/)
 *
 * - Former roles keep their rights on rows and see all of them by a policy of their own.
 * - The rules of row level security are applied to the catalog as it is after the first three steps.
 */
import pg from 'pg'
import type { SchemaFacts } from '../adoption/schema-facts.ts'
import {
  adoptionStatements,
  type RecordedRights,
  type Roles,
  reasonsAgainst,
  releaseStatements,
  usersOf,
  warningsAbout,
} from '../adoption/schema-plan.ts'
import type { RowTables } from '../audit/orphaned-rows.ts'
import type { SchemaMembers } from '../catalog/schema-members.ts'
import type { Finding } from '../row-security/rules.ts'
import { faultsOf, isTenants, repairsOf, rightsOf, warningsOf } from '../row-security/rules.ts'
import { formerDefinition, type SchemaFacts as RowFacts } from '../row-security/sql.ts'
import { columnDefault, columnName } from '../row-security/tenant-column.ts'
import type { RowTable } from './row-tables.ts'

/** What a release restores, in addition to owners and rights. As JSON. */
export interface RecordedRows extends RecordedRights {
  readonly column: string
  readonly tables: readonly Pick<RowTable, 'identity' | 'column' | 'isSecured' | 'isForced'>[]
}

export interface Examined {
  readonly members: SchemaMembers
  readonly facts: SchemaFacts
  readonly rowFacts: RowFacts
  readonly tables: readonly RowTable[]
}

export interface RowStatements {
  readonly owners: readonly string[]
  readonly columns: readonly string[]
  /** Done and checked by `protectRows`. */
  readonly security: readonly string[]
}

/** The roles of the adoption, with the rights that the scope role has on shared tables. */
export function rowRoles({ rowFacts, tables }: Examined, owner: string, scope: string): Roles {
  const shared = new Set(rowFacts.relations.filter((one) => !isTenants(one)).map(({ name }) => name))
  const read = new Set(tables.filter(({ name }) => shared.has(name)).map(({ identity }) => identity))
  return {
    owner,
    scope,
    scopeRights: ({ kind, name }) => {
      if (kind === 'sequence') return ['USAGE']
      if (kind === 'routine') return ['EXECUTE']
      if (!/table|view/.test(kind)) return []
      return read.has(name) ? ['SELECT'] : ['DELETE', 'INSERT', 'SELECT', 'UPDATE']
    },
  }
}

export function rowStatements(rowTables: RowTables, examined: Examined, roles: Roles): RowStatements {
  const { schema, column } = rowTables
  const { facts } = examined
  const former = formerRoles(facts, roles)
  const policy = former.length > 0 ? formerDefinition(former, roles.owner) : undefined
  const after = factsAfter(rowTables, examined, roles)
  const [name, filled] = [columnName(column), columnDefault(column)]
  return {
    owners: adoptionStatements(schema, facts, roles),
    columns: tenantTables(examined).flatMap(({ identity, column: found }) => {
      const changes = [
        ...(found?.default === filled ? [] : [`alter column ${name} set default ${filled}`]),
        ...(found?.isRequired ? [] : [`alter column ${name} set not null`]),
      ]
      return [
        ...(changes.length > 0 ? [`alter table ${identity} ${changes.join(', ')}`] : []),
        ...(policy ? [`create policy ${policy.prefix} on ${identity} ${policy.clauses}`] : []),
      ]
    }),
    security: repairsOf(after, roles.scope).map(({ statement }) => statement),
  }
}

/** Prefixes of the policies that `rowStatements` creates. */
export const formerPolicies = (facts: SchemaFacts, roles: Roles): string[] => {
  const former = formerRoles(facts, roles)
  return former.length > 0 ? [formerDefinition(former, roles.owner).prefix] : []
}

export function rowReasons(rowTables: RowTables, examined: Examined, roles: Roles): string[] {
  const { facts, rowFacts } = examined
  return [
    ...reasonsAgainst(rowTables.schema, facts, roles, { isWholeDatabase: false }),
    ...faultsOf(factsAfter(rowTables, examined, roles)).map(toText),
    ...rowFacts.relations.flatMap(({ name, policies }) =>
      policies
        .filter((one) => one.name.startsWith('tenantry_'))
        .map((one) => `the policy "${one.name}" of the table "${name}" has a reserved name: drop it`),
    ),
    ...tenantTables(examined).flatMap(({ identity, isForced, column }) => [
      ...(isForced
        ? [`the table ${identity} has FORCE ROW LEVEL SECURITY: alter table … no force row level security`]
        : []),
      ...(column?.isComputed ? [`the tenant column of the table ${identity} is computed by the server`] : []),
    ]),
  ]
}

/** @param creatorsInPublic as of `warningsAbout` */
export function rowWarnings(
  rowTables: RowTables,
  examined: Examined,
  roles: Roles,
  creatorsInPublic: readonly string[],
): string[] {
  const name = columnName(rowTables.column)
  return [
    ...warningsAbout(examined.facts, roles, creatorsInPublic),
    ...(formerRoles(examined.facts, roles).length > 0
      ? ['former roles do not see rows of tables that later migrations create']
      : ['no other role has rights on the tables: an application that uses the role of `url` no longer sees rows']),
    ...warningsOf(factsAfter(rowTables, examined, roles)).map(toText),
    ...tenantTables(examined)
      .filter(({ column, isPartitioned }) => !isPartitioned && !column?.isIndexed)
      .map(({ identity }) => `no index of ${identity} begins with ${name}: each statement of a tenant reads the table`),
  ]
}

export const rowLocks = (rowTables: RowTables, examined: Examined): string[] =>
  examined.tables.map((table) => {
    const isScanned = isTenantTable(examined, table) && table.column?.isRequired === false
    const scan = `, and a scan of the table, as ${columnName(rowTables.column)} may be null; no scan if a valid constraint checks it`
    return `ACCESS EXCLUSIVE on ${table.identity} until the commit${isScanned ? scan : ', without a scan'}`
  })

export const recordedRows = (rowTables: RowTables, { facts, tables }: Examined): RecordedRows => {
  const { owner, rights, objects, defaults } = facts
  return {
    owner,
    rights,
    objects,
    defaults,
    column: columnName(rowTables.column),
    tables: tables.map(({ identity, column, isSecured, isForced }) => ({ identity, column, isSecured, isForced })),
  }
}

/** All statements of the release. Tables that migrations have created since lose their policies. */
export function rowReleaseStatements(
  schema: string,
  { facts, rowFacts, tables }: Examined,
  recorded: RecordedRows,
  roles: Roles,
): string[] {
  const before = new Map(recorded.tables.map((table) => [table.identity, table]))
  const security = tables.flatMap(({ name, identity }) => {
    const { column, isSecured = false, isForced = false } = before.get(identity) ?? {}
    const policies = rowFacts.relations.find((one) => one.name === name)?.policies ?? []
    const ofColumn = `alter column ${recorded.column}`
    return [
      ...policies
        .filter((one) => one.name.startsWith('tenantry_'))
        .map((one) => `drop policy ${pg.escapeIdentifier(one.name)} on ${identity}`),
      `alter table ${identity} ${isSecured ? 'enable' : 'disable'} row level security, ${isForced ? '' : 'no '}force row level security`,
      ...(column
        ? [
            `alter table ${identity} ${ofColumn} ${column.default === null ? 'drop default' : `set default ${column.default}`}`,
            ...(column.isRequired ? [] : [`alter table ${identity} ${ofColumn} drop not null`]),
          ]
        : []),
    ]
  })
  return [...security, ...releaseStatements(schema, facts, recorded, roles)]
}

const formerRoles = (facts: SchemaFacts, roles: Roles): string[] => usersOf(facts, roles)

const isTenantTable = ({ rowFacts }: Examined, { name, column }: RowTable): boolean =>
  column !== null && rowFacts.relations.some((one) => one.name === name && isTenants(one))

const tenantTables = (examined: Examined): RowTable[] =>
  examined.tables.filter((table) => isTenantTable(examined, table))

/** The catalog as it is before `protectRows`. */
function factsAfter({ column }: RowTables, { rowFacts }: Examined, { owner }: Roles): RowFacts {
  return {
    ...rowFacts,
    owner,
    scopeMayUse: true,
    relations: rowFacts.relations.map((relation) => ({
      ...relation,
      owner,
      isPublic: false,
      granted: rightsOf(relation),
      tenantId: relation.tenantId && { ...relation.tenantId, isRequired: true, default: columnDefault(column) },
    })),
  }
}

const toText = ({ object, fault, remedy }: Finding): string => `the ${object}: ${fault} (${remedy})`
