/** Parses form parameters as the client sends them, `items[0][price]=price_1`. All values are strings. */
import { invalid, missing } from './errors.ts'

export type Value = string | Params | readonly Value[]
export interface Params {
  readonly [name: string]: Value | undefined
}

type Tree = Map<string, string | Tree>

export function parsed(encoded: string): Params {
  const root: Tree = new Map()
  for (const [key, value] of new URLSearchParams(encoded)) {
    const names = key.replaceAll(']', '').split('[')
    const last = names.pop() ?? ''
    let tree = root
    for (const name of names) {
      const inner = tree.get(name)
      const next: Tree = inner instanceof Map ? inner : new Map()
      tree.set(name, next)
      tree = next
    }
    tree.set(last === '' ? String(tree.size) : last, value)
  }
  return Object.fromEntries([...root].map(([name, value]) => [name, untangled(value)]))
}

/** A hash with the keys 0, 1, 2 … becomes a list. */
function untangled(value: string | Tree): Value {
  if (typeof value === 'string') return value
  const names = [...value.keys()]
  const isList = names.length > 0 && names.every((name, index) => name === String(index))
  const values = [...value.values()].map(untangled)
  return isList ? values : Object.fromEntries(names.map((name, index) => [name, values[index] ?? '']))
}

/** Undefined if absent; an empty string unsets the value. */
export function text(params: Params, name: string): string | undefined {
  const value = params[name]
  if (value === undefined || typeof value === 'string') return value
  throw invalid(`Invalid string: ${name}`, name)
}

export function neededText(params: Params, name: string, label = name): string {
  const value = text(params, name)
  if (value === undefined || value === '') throw missing(label)
  return value
}

export function whole(params: Params, name: string): number | undefined {
  const value = text(params, name)
  if (value === undefined || value === '') return undefined
  if (!/^-?\d+$/.test(value)) throw invalid(`Invalid integer: ${value}`, name, 'parameter_invalid_integer')
  return Number(value)
}

export function flag(params: Params, name: string): boolean | undefined {
  const value = text(params, name)
  if (value === undefined || value === '') return undefined
  if (value !== 'true' && value !== 'false') throw invalid(`Invalid boolean: ${value}`, name)
  return value === 'true'
}

/** One of the given words; the first one is the default. */
export function oneOf<const Words extends readonly [string, ...string[]]>(
  params: Params,
  name: string,
  words: Words,
): Words[number] {
  const value = text(params, name)
  if (value === undefined || value === '') return words[0]
  const word = words.find((one) => one === value)
  if (!word) throw invalid(`Invalid ${name}: must be one of ${words.join(', ')}`, name)
  return word
}

export function hash(params: Params, name: string): Params | undefined {
  const value = params[name]
  if (value === undefined || value === '') return undefined
  if (typeof value === 'string') throw invalid('Invalid object', name)
  return value as Params
}

export function hashes(params: Params, name: string): readonly Params[] {
  return Object.values(hash(params, name) ?? {}).map((value) => {
    if (typeof value === 'string' || value === undefined) throw invalid('Invalid object', name)
    return value as Params
  })
}

export function texts(params: Params, name: string): readonly string[] {
  return Object.values(hash(params, name) ?? {}).map((value) => {
    if (typeof value !== 'string') throw invalid(`Invalid string: ${name}`, name)
    return value
  })
}

/** Sets the given keys, removes keys with an empty value, and removes all keys for an empty `metadata`. */
export function metadata(params: Params, before: Record<string, string> = {}): Record<string, string> {
  if (params.metadata === '') return {}
  const after = { ...before }
  for (const [name, value] of Object.entries(hash(params, 'metadata') ?? {})) {
    if (typeof value !== 'string') throw invalid('Metadata values must be strings', `metadata[${name}]`)
    if (value === '') delete after[name]
    else after[name] = value
  }
  return after
}

/** `created[gte]=…`, or `created=…` for an exact time. */
export function within(params: Params, name: string, seconds: number): boolean {
  const value = params[name]
  if (value === undefined) return true
  if (typeof value === 'string') return seconds === Number(value)
  const range = value as Params
  const {
    gt = -Infinity,
    gte = -Infinity,
    lt = Infinity,
    lte = Infinity,
  } = {
    gt: whole(range, 'gt'),
    gte: whole(range, 'gte'),
    lt: whole(range, 'lt'),
    lte: whole(range, 'lte'),
  }
  return seconds > gt && seconds >= gte && seconds < lt && seconds <= lte
}
