/**
 * Describes the operations of a host's satellites, which the built console does not know: the rules of their fields, and the form of their
 * results. Forms use the rules; generic screens are made of all of it.
 */
import type { AnyOperation } from '../../kernel/api/operation.ts'
import { mayCall } from '../../kernel/api/permissions.ts'
import type { Grant } from '../../kernel/base/context.ts'
import { fieldRules, operationSchemas, resolved, type Schema, variantsOf } from './operation-schemas.ts'
import { queryRules } from './query-rules.ts'

/** As `HostOperation` of the console. */
export interface HostOperation {
  readonly satellite: string
  readonly name: string
  readonly method: string
  readonly path: string
  readonly summary: string
  readonly description?: string
  readonly params: Readonly<Record<string, Schema>>
  readonly query: Readonly<Record<string, Schema>>
  readonly body: Readonly<Record<string, Schema>>
  /** Whether the body is not an object with known members: `body` has one rule, `body`. */
  readonly isPlainBody: boolean
  /** `list`: `{ data }`; `none`: no JSON. */
  readonly result: 'list' | 'value' | 'none'
  /** Members of the items of a list. */
  readonly columns: readonly string[]
  /** Whether it reveals a secret: its result is shown once, and not kept. */
  readonly isSecret: boolean
}

type SatelliteOperations = ReadonlyMap<string, readonly AnyOperation[]>

/**
 * The operations that a grant permits. They are described at the first call.
 *
 * @param document the OpenAPI document of all operations, as JSON
 */
export function hostOperations(
  satellites: SatelliteOperations,
  document: string,
): (grant: Grant) => readonly HostOperation[] {
  const operations = [...satellites.values()].flat()
  let described: readonly HostOperation[] | undefined
  return (grant) => {
    described ??= describe(satellites, JSON.parse(document))
    return described.filter((_, index) => mayCall(grant, operations[index] as AnyOperation))
  }
}

function describe(satellites: SatelliteOperations, document: Schema): HostOperation[] {
  const { schemas = {} } = document.components
  const byName = new Map(operationSchemas(document).map((one) => [one.name, one]))
  return [...satellites].flatMap(([satellite, operations]) =>
    operations.map((operation) => {
      const { name, method, path, summary, description, scope } = operation
      const one = byName.get(name)
      const { params, body, result } = one ?? {}
      const isPlainBody = body !== undefined && Object.keys(resolved(body, schemas).properties ?? {}).length === 0
      const items = itemsOf(result, schemas)
      return {
        satellite,
        name,
        method,
        path,
        summary,
        ...(description ? { description } : {}),
        params: fieldRules(params, schemas),
        query: one ? queryRules(operation, one, schemas) : {},
        body: isPlainBody ? { body: { type: 'json', required: true } } : formRules(body, schemas),
        isPlainBody,
        result: result === undefined ? 'none' : items && method === 'GET' ? 'list' : 'value',
        columns: Object.keys(resolved(items, schemas).properties ?? {}),
        isSecret: scope === 'reveal',
      }
    }),
  )
}

/** The schema of the items of `{ data }`; undefined for other results. */
function itemsOf(result: Schema | undefined, schemas: Schema): Schema | undefined {
  const data = resolved(resolved(result, schemas).properties?.data, schemas)
  return data.type === 'array' ? (data.items ?? {}) : undefined
}

/** A member that no single field can hold is entered as JSON. */
function formRules(body: Schema | undefined, schemas: Schema): Record<string, Schema> {
  const members: Schema = resolved(body, schemas).properties ?? {}
  return Object.fromEntries(
    Object.entries(fieldRules(body, schemas)).map(([name, rules]) => {
      const { description } = members[name]
      const { required, ...others } = rules
      const { nullable } = others
      const form = isOfOneField(members[name], schemas) ? others : { type: 'json', ...(nullable ? { nullable } : {}) }
      return [name, { ...form, ...(required ? { required } : {}), ...(description ? { description } : {}) }]
    }),
  )
}

const FIELDS = ['string', 'integer', 'number', 'boolean']

function isOfOneField(member: Schema, schemas: Schema): boolean {
  const variants = variantsOf(member)
    .map((one) => resolved(one, schemas))
    .filter(({ type }) => type !== 'null')
  const [variant = {}] = variants
  const types = [variant.type].flat().filter((type) => type !== 'null')
  if (variants.length !== 1 || types.length !== 1) return false
  const [type] = types
  return FIELDS.includes(type) || (type === 'array' && resolved(variant.items, schemas).type === 'string')
}
