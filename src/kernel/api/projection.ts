/**
 * Commands of operations: arguments and options come from the schemas of the input, the output from the JSON of the reply.
 *
 *   command line ─► { params, query, body } ─► question ─► call ─► wait ─► table or record (call-command.ts)
 */
import { z } from 'zod'
import { number } from '../base/format.ts'
import { meter, paceText } from '../base/progress-rate.ts'
import { parsed } from '../base/validate.ts'
import { callCommand } from './call-command.ts'
import { type Caller, callerIn } from './caller.ts'
import type { Argument, Command, CommandInput, Option } from './commands.ts'
import { runFiltered, withFilter } from './filtered.ts'
import { ALL, DRY_RUN, PAGING } from './general-options.ts'
import type { AnyOperation, CallInput, CommandForm, Progress } from './operation.ts'
import { decimal, json, keyOf } from './option-values.ts'

export interface ProjectedCommand<Service = any> extends Command<Service> {
  readonly operation: AnyOperation<Service>
  readonly runWith: (caller: Caller, input: CommandInput) => Promise<void>
}

/** An argument or option, and the member of the input that has its value. */
interface Field {
  readonly part: 'params' | 'query' | 'body'
  readonly member: string
  readonly argument?: Argument
  readonly option?: Option
  /** From the text of an argument. */
  readonly read?: ((text: string, path?: string) => unknown) | undefined
}

/** A member of parameters, query or body, by its JSON Schema. */
interface Member extends Pick<Field, 'part' | 'read'> {
  readonly schema: z.ZodType
  readonly isRequired: boolean
  readonly summary: string
  /** After the name of its option: nothing for a switch. */
  readonly placeholder: string
}

interface JsonSchema {
  readonly type?: string
  readonly description?: string
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly JsonSchema[]
}

const READERS: Readonly<Record<string, Field['read']>> = { number: decimal, integer: decimal, object: json }

/** The commands of these operations in their order, or those with these names. */
export function commandsOf<Service>(
  operations: readonly AnyOperation<Service>[],
  ...names: readonly string[]
): ProjectedCommand<Service>[] {
  const commands = operations.flatMap((one) => (one.command ? [commandOf(one, one.command)] : []))
  if (names.length === 0) return commands
  return names.map((name) => {
    const command = commands.find((one) => one.name === name)
    if (!command) throw new Error(`no operation has the command "${name}"`)
    return command
  })
}

function commandOf<Service>(operation: AnyOperation<Service>, given: string | CommandForm): ProjectedCommand<Service> {
  const form = typeof given === 'string' ? { name: given } : given
  const fields = fieldsOf(operation, form)
  const { name, wait, filter, instead, progress } = form
  const runOne = async (caller: Caller, input: CommandInput) => {
    const isInstead = instead !== undefined && input.options[keyOf(instead.option.flags)]
    const called = isInstead ? instead.operation : operation
    return callCommand({ operation: called, form, caller }, inputOf(fields, form, input), input)
  }
  const runWith = async (caller: Caller, input: CommandInput) => {
    if (!filter) return runOne(caller, input)
    const read = async (query: CallInput['query']) => (await caller.call(filter, { query })).body
    return runFiltered({ name, list: filter, read, runOne: (one) => runOne(caller, one) }, input)
  }
  const command: ProjectedCommand<Service> = {
    name,
    summary: form.summary ?? operation.summary,
    arguments: fields.flatMap(({ argument = [] }) => argument),
    options: [
      ...fields.flatMap(({ option = [] }) => option),
      ...(fields.some(isCursor) ? [ALL] : []),
      ...(form.plan ? [DRY_RUN] : []),
      ...(instead ? [instead.option] : []),
      ...(wait ? [wait.option] : []),
    ],
    needsWorker: wait !== undefined && wait.work === undefined,
    changesStorage: operation.changesStorage ?? false,
    operation,
    runWith,
    run: (service, input) =>
      runWith(callerIn(service, input.signal, progress === undefined ? undefined : progressIn(progress, input)), input),
  }
  return filter ? withFilter(command, filter) : command
}

function fieldsOf({ path, params, query, body }: AnyOperation, form: CommandForm): Field[] {
  const { arguments: args = {}, options = {}, readsAllPages } = form
  const ofPath = membersOf('params', params)
  const members = new Map([...membersOf('query', query), ...membersOf('body', body)])
  if (readsAllPages) for (const name of Object.keys(PAGING)) members.delete(name)
  const inPath = Array.from(path.matchAll(/\{(\w+)\}/g), ([, name = '']) => name)
  const further = Object.keys(args).filter((name) => !inPath.includes(name))
  const optional = new Set([...Object.keys(options), ...members.keys()])
  for (const name of further) optional.delete(name)
  return [
    ...inPath.map((name) => argumentOf(name, ofPath.get(name), args[name])),
    ...further.map((name) => argumentOf(name, members.get(name), args[name])),
    ...Array.from(optional, (name) => optionOf(name, members.get(name), options[name], form.query ? 'query' : 'body')),
  ]
}

const isCursor = ({ part, member }: Field): boolean => part === 'query' && member === 'cursor'

function argumentOf(member: string, of: Member | undefined, given: string | Partial<Argument> = {}): Field {
  const differences = typeof given === 'string' ? { summary: given } : given
  const argument = { name: member, summary: of?.summary ?? '', required: of?.isRequired ?? true, ...differences }
  return { part: of?.part ?? 'params', member, argument, read: of?.read }
}

function optionOf(
  member: string,
  of: Member | undefined,
  given: string | Partial<Option> | undefined,
  ofForm: Field['part'],
): Field {
  const differences = typeof given === 'string' ? { summary: given } : given
  const { part = ofForm, schema, read, placeholder = ` <${kebab(member)}>` } = of ?? {}
  const paging = part === 'query' ? PAGING[member] : undefined
  const option: Option = {
    flags: `--${kebab(member)}${placeholder}`,
    summary: of?.summary ?? '',
    ...(of?.isRequired ? { required: true } : {}),
    ...(schema && read ? { parse: checkedBy(schema, read) } : {}),
    ...paging,
    ...differences,
  }
  return { part, member, option }
}

/** An error names the option. Other values are checked with the whole input. */
const checkedBy = (schema: z.ZodType, read: (text: string) => unknown) => (text: string) => {
  const value = read(text)
  parsed(schema, value)
  return value
}

function membersOf(part: Field['part'], schema: z.ZodType | undefined): Map<string, Member> {
  if (!(schema instanceof z.ZodObject)) return new Map()
  const { properties = {}, required = [] } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' })
  const members = Object.entries(properties).map(([name, property]) => {
    const { description = '', anyOf = [], ...own } = property as JsonSchema
    const { type = '', enum: values } = anyOf.find((one) => one.type !== 'null') ?? own
    const isSwitch = type === 'boolean' || values?.join() === 'true,false'
    const kind = type === 'object' ? 'json' : `${kebab(name)}${type === 'array' ? '...' : ''}`
    const member: Member = {
      part,
      schema: schema.shape[name],
      isRequired: required.includes(name),
      summary: lowerFirst(description).replaceAll('`', ''),
      placeholder: isSwitch ? '' : ` <${kind}>`,
      read: part === 'body' ? READERS[type] : undefined,
    }
    return [name, member] as const
  })
  return new Map(members)
}

function inputOf(fields: readonly Field[], form: CommandForm, { args, options }: CommandInput): Required<CallInput> {
  const input: Record<Field['part'], Record<string, any>> = { params: {}, query: {}, body: {} }
  for (const { part, member, argument, option, read = String } of fields) {
    const value = argument ? args[argument.name] : options[keyOf(option?.flags)]
    if (value === undefined) continue
    input[part][member] = part === 'query' ? String(value) : argument ? read(value, argument.name) : value
  }
  const { query = (given) => given, body = (given) => given } = form
  return { ...input, query: query(input.query), body: body(input.body) }
}

const progressIn = (what: string, { terminal }: CommandInput): Progress => {
  const look = meter()
  return (done, total) => terminal.progress(`${number(done)} of ${number(total)} ${what}${paceText(look(done, total))}`)
}

/** Names such as PostgreSQL and URL keep their first letter. */
const lowerFirst = (text: string): string =>
  /^\w+[A-Z]/.test(text) ? text : text.charAt(0).toLowerCase() + text.slice(1)

const kebab = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
