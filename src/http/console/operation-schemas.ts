/** Schemas of operations, and the rules of their fields, from the OpenAPI document: for generated files, and for operations of hosts. */

export type Schema = Readonly<Record<string, any>>

const JSON_TYPE = 'application/json'

export interface OperationSchemas {
  readonly name: string
  readonly params: Schema
  readonly query: Schema
  readonly body: Schema | undefined
  readonly result: Schema | undefined
}

/** @param document an OpenAPI document with shared components */
export function operationSchemas({ paths, components }: Schema): OperationSchemas[] {
  const operations = Object.values<Schema>(paths).flatMap((path) => Object.values<Schema>(path))
  return operations.map((operation) => schemasOf(operation, components.parameters ?? {}))
}

function schemasOf(operation: Schema, shared: Schema): OperationSchemas {
  const parameters: Schema[] = (operation.parameters ?? []).map((one: Schema) =>
    one.$ref ? shared[one.$ref.split('/').at(-1)] : one,
  )
  const objectOf = (place: string): Schema => {
    const own = parameters.filter((parameter) => parameter.in === place)
    return {
      type: 'object',
      properties: Object.fromEntries(own.map(({ name, schema }) => [name, schema])),
      required: own.flatMap(({ name, required }) => (required ? [name] : [])),
      additionalProperties: false,
    }
  }
  const success = Object.entries<Schema>(operation.responses).find(([status]) => status.startsWith('2'))?.[1]
  return {
    name: operation.operationId,
    params: objectOf('path'),
    query: objectOf('query'),
    body: operation.requestBody?.content[JSON_TYPE]?.schema,
    result: success?.content?.[JSON_TYPE]?.schema,
  }
}

/** The schema itself, in place of a reference to it. */
export const resolved = (schema: Schema | undefined, schemas: Schema): Schema =>
  (schema?.$ref ? schemas[schema.$ref.split('/').at(-1)] : schema) ?? {}

const KEPT = [
  'minLength',
  'maxLength',
  'pattern',
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'enum',
  'default',
  'format',
  'minItems',
  'maxItems',
]

/** Constraints of the members of an object, without descriptions of the API. Of several variants, those of the first. */
export function fieldRules(schema: Schema | undefined, schemas: Schema): Record<string, Schema> {
  const { properties = {}, required = [] } = resolved(schema, schemas)
  return Object.fromEntries(
    Object.entries<Schema>(properties).map(([name, member]) => {
      const variants = variantsOf(member)
      const main = variants.find((one) => !isNull(one)) ?? member
      const nullable = variants.some((one) => [resolved(one, schemas).type].flat().includes('null'))
      const more = { ...(nullable ? { nullable } : {}), ...(required.includes(name) ? { required: true } : {}) }
      return [name, { ...rulesOf(main, schemas), ...more }]
    }),
  )
}

/** Constraints of one value. */
export function rulesOf(schema: Schema, schemas: Schema): Schema {
  const plain = resolved(schema, schemas)
  const type = Array.isArray(plain.type) ? plain.type.find((one: string) => one !== 'null') : plain.type
  const kept = Object.fromEntries(KEPT.flatMap((key) => (key in plain ? [[key, plain[key]]] : [])))
  if ('const' in plain) kept.enum = [plain.const]
  if (kept.pattern) kept.pattern = withSetEscapes(kept.pattern)
  return { type, ...kept }
}

export const isNull = ({ type }: Schema): boolean => type === 'null'

export const variantsOf = (schema: Schema): Schema[] => schema.anyOf ?? schema.oneOf ?? [schema]

/** The same pattern for the flag `v`, which the attribute `pattern` has: it reserves characters inside of classes. */
const withSetEscapes = (pattern: string): string =>
  pattern.replaceAll(/\[(\^?)((?:\\.|[^\]\\])*)\]/g, (_, not: string, members: string) => {
    const escaped = members
      .replaceAll(/\\.|[()[\]{}/|]/g, (one) => (one.length === 2 ? one : `\\${one}`))
      .replace(/^-|(?<!\\)-$/g, '\\-')
    return `[${not}${escaped}]`
  })
