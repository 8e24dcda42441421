/** Names of event types outside of the code: `TenantEnteredMaintenance` is `tenant.entered_maintenance`. */
import type { EventType } from './events.ts'

/** Converts the name of an event type. */
export function dottedName(typeName: string): string {
  const [first = '', ...others] = typeName.split(/(?=[A-Z])/).map((word) => word.toLowerCase())
  return others.length === 0 ? first : `${first}.${others.join('_')}`
}

/** Dotted names of event types, as a type. Internal ones have none. */
export type DottedNameOf<Type extends EventType> = Type extends { readonly isInternal: true }
  ? never
  : string extends Type['name']
    ? string
    : Dotted<Uncapitalize<Type['name']>>

/** The first capital letter begins the second segment. */
type Dotted<Name extends string, Before extends string = ''> = Name extends `${infer Letter}${infer Rest}`
  ? Letter extends Lowercase<Letter>
    ? Dotted<Rest, `${Before}${Letter}`>
    : `${Before}.${Snake<Uncapitalize<Name>>}`
  : Before

type Snake<Name extends string, Before extends string = ''> = Name extends `${infer Letter}${infer Rest}`
  ? Snake<Rest, `${Before}${Letter extends Lowercase<Letter> ? Letter : `_${Lowercase<Letter>}`}`>
  : Before
