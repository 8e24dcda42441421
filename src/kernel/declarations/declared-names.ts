/** Names that a host declares, for the check of arguments at run time. */
import { invalid, type TenancyError } from '../base/errors.ts'

/** Undefined: nothing is declared, so any name is valid. */
export type DeclaredNames = ReadonlySet<string> | undefined

export const declaredNames = (names: readonly string[] = []): DeclaredNames =>
  names.length > 0 ? new Set(names) : undefined

/** @throws E_INVALID_REQUEST with the declared names */
export function assertDeclared(declared: DeclaredNames, name: string, path: string): void {
  if (declared?.has(name) === false) throw undeclared(declared, name, path)
}

/** E_INVALID_REQUEST with the declared names. */
export function undeclared(declared: Iterable<string>, name: string, path: string): TenancyError {
  const names = [...declared].toSorted()
  const valid = names.length === 0 ? 'No name is declared.' : `Declared names: ${names.join(', ')}.`
  return invalid([{ path, message: `"${name}" is not declared. ${valid}` }])
}

/** Declared names as options that the processes of a backoffice compare. */
export const sharedNames = (option: string, names: readonly string[] = []): Record<string, string> =>
  Object.fromEntries(names.map((name) => [`${option}.${name}`, 'declared']))
