/** Moves headers, parameters and error responses that an OpenAPI document repeats to its components, and refers to them by `$ref`. */

/** Returns the document with each repeated header, parameter and error response once. */
export function withSharedComponents<T extends { readonly paths?: object; readonly components?: object }>(
  document: T,
): T {
  const shared = structuredClone(document)
  const operations = Object.values(shared.paths ?? {}).flatMap((path) => Object.values(path ?? {})) as any[]
  const responses: Record<string, any>[] = operations.map((operation) => operation.responses)
  const headers = responses.flatMap((byStatus) => Object.values(byStatus).map((response) => response.headers ?? {}))
  const parameters = operations.map((operation) => operation.parameters ?? [])
  const components = {
    ...shared.components,
    headers: share('headers', headers, (_, key) => key),
    parameters: share('parameters', parameters, ({ name }) => name),
    responses: share('responses', responses, (response) => response['x-error-codes']?.join('.')),
  }
  return { ...shared, components }
}

/**
 * Replaces equal values of `holders` by references to one component, and returns the components. A value without a name, and one that
 * occurs once, stays where it is.
 */
function share(
  kind: string,
  holders: readonly Record<string, any>[],
  nameOf: (value: any, key: string) => string | undefined,
): Record<string, any> {
  const components: Record<string, any> = {}
  const entries = holders.flatMap((holder) => Object.entries(holder).map(([key, value]) => ({ holder, key, value })))
  for (const equal of Map.groupBy(entries, ({ value }) => JSON.stringify(value)).values()) {
    const [{ key, value }] = equal as [(typeof equal)[number]]
    const base = nameOf(value, key)
    if (!base || equal.length === 1) continue
    let name = base
    for (let number = 2; name in components; number++) name = `${base}-${number}`
    components[name] = value
    for (const { holder, key } of equal) holder[key] = { $ref: `#/components/${kind}/${name}` }
  }
  return components
}
