/** Path of an operation or a screen with the values of its parameters. */

/** Undefined if a value is empty or a dot segment: the browser would resolve it to the path of another operation. */
export function filledPath(path: string, params: Readonly<Record<string, string>>): string | undefined {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)
  if (names.some((name) => ['', '.', '..'].includes(params[name] ?? ''))) return undefined
  return path.replaceAll(/\{(\w+)\}/g, (_, name) => encodeURIComponent(params[name] ?? ''))
}
