/**
 * Forms of operations: uncontrolled native fields, whose constraint attributes come from the schema of the operation. The browser checks
 * them; the service checks every rule, and its `errors` appear at their fields.
 */
import {
  createContext,
  type FormEvent,
  type KeyboardEvent,
  type ReactNode,
  useContext,
  useId,
  useRef,
  useState,
} from 'react'
import { bodyRulesOf } from '../../api/bodies.ts'
import type { Body, FieldRules, OperationName, Rules } from '../../api/contract.ts'
import type { Problem } from '../../data/problem.ts'
import { Button } from '../base/button.tsx'
import { ProblemView } from '../base/problem.tsx'
import { text } from '../base/text.ts'

/** Options of an open list that are shown without scrolling. */
const MAX_SHOWN = 8

interface Context {
  readonly rules: Readonly<Record<string, FieldRules>>
  readonly initial: Readonly<Record<string, unknown>>
  readonly errors: Readonly<Record<string, string>>
}

const FormContext = createContext<Context>({ rules: {}, initial: {}, errors: {} })

interface FormProps<Name extends OperationName> {
  readonly operation: Name
  /** In place of the rules of the body: also for fields such as `query.limit` and `params.noteId`. */
  readonly rules?: Rules
  /** Whether empty optional lists are left out, too. */
  readonly omitsEmpty?: boolean
  /** Values of the fields before the first change. */
  readonly initial?: Partial<NonNullable<Body<Name>>>
  readonly submit: string
  readonly isRunning?: boolean
  readonly problem?: Problem | null
  readonly isDestructive?: boolean
  readonly onSubmit: (body: NonNullable<Body<Name>>) => void
  readonly onCancel?: () => void
  readonly children: ReactNode
}

/** @example <Form operation="tenants.create" submit={text.create} onSubmit={(body) => create.run({ body })}><Field name="name" label={text.name} /></Form> */
export function Form<Name extends OperationName>({
  operation,
  rules = bodyRulesOf(operation),
  omitsEmpty = false,
  initial = {},
  submit,
  isRunning = false,
  problem,
  isDestructive = false,
  onSubmit,
  onCancel,
  children,
}: FormProps<Name>) {
  const [invalid, setInvalid] = useState<Readonly<Record<string, string>>>({})
  const form = useRef<HTMLFormElement>(null)
  const rejected = Object.fromEntries((problem?.errors ?? []).map(({ path, message }) => [fieldOf(path), message]))
  const errors = { ...rejected, ...invalid }
  const isElsewhere = problem && !problem.errors.some(({ path }) => form.current?.elements.namedItem(fieldOf(path)))

  const send = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    if (isRunning) return
    const { body, broken } = bodyOf(event.currentTarget, rules, omitsEmpty)
    setInvalid(broken)
    const [first] = Object.keys(broken)
    if (first) (event.currentTarget.elements.namedItem(first) as HTMLElement | null)?.focus()
    else onSubmit(body as NonNullable<Body<Name>>)
  }
  /** The message of the browser appears at the field. The first invalid field receives the focus. */
  const showInvalid = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const field = event.target as HTMLInputElement
    if (form.current?.querySelector(':invalid:not(fieldset)') === field) field.focus()
    setInvalid((former) => ({ ...former, [field.name]: field.validationMessage }))
  }
  const clearError = (event: FormEvent<HTMLFormElement>) => {
    const { name } = event.target as HTMLInputElement
    setInvalid(({ [name]: _, ...rest }) => rest)
  }
  return (
    <FormContext value={{ rules, initial: initial as Readonly<Record<string, unknown>>, errors }}>
      <form ref={form} className="form" onSubmit={send} onInvalidCapture={showInvalid} onInput={clearError}>
        {children}
        {isElsewhere && <ProblemView error={problem} isCompact />}
        <footer>
          {onCancel && <Button onClick={onCancel}>{text.cancel}</Button>}
          <Button type="submit" variant={isDestructive ? 'danger' : 'primary'} isRunning={isRunning}>
            {submit}
          </Button>
        </footer>
      </form>
    </FormContext>
  )
}

/** `body.domains.0` is an error of the field `domains`, `query.limit` of the field with this name. */
const fieldOf = (path: string): string =>
  /^(query|params)\.\w+/.exec(path)?.[0] ?? path.replace(/^body\./, '').split('.')[0] ?? path

interface FieldProps {
  /** Member of the body. */
  readonly name: string
  readonly label: string
  readonly hint?: ReactNode
  readonly placeholder?: string
  /** Values and texts of a select; default: those of the schema. */
  readonly options?: readonly (readonly [value: string, title: string])[]
  /** Whether all options are shown, and one click selects one. */
  readonly isOpen?: boolean
  /** Default: by the type of the member. */
  readonly as?: 'text' | 'textarea' | 'password' | 'email' | 'url' | 'datetime-local'
  readonly defaultValue?: unknown
  readonly autoFocus?: boolean
  /** Text of the empty option of a select. */
  readonly none?: string
  /** Whether the body of the operation has no such member: `onSubmit` receives it as a string. */
  readonly isExtra?: boolean
  readonly isRequired?: boolean
  /** Stricter than the operation. */
  readonly minLength?: number
  /** Whether a button empties it. */
  readonly isClearable?: boolean | undefined
}

export function Field({
  name,
  label,
  hint,
  options,
  isOpen = false,
  as,
  defaultValue,
  none,
  isExtra,
  isRequired,
  minLength,
  isClearable = false,
  ...more
}: FieldProps) {
  const { rules, initial, errors } = useContext(FormContext)
  const id = useId()
  const rule: FieldRules = {
    ...rules[name],
    ...(isRequired ? { required: true } : {}),
    ...(minLength === undefined ? {} : { minLength }),
  }
  const value = defaultValue ?? (initial[name] === undefined ? rule.default : initial[name])
  const error = errors[name]
  const shownHint = hint ?? (rule.type === 'array' ? text.oneByLine : undefined)
  const choices = options ?? rule.enum?.map((one) => [one, one] as const)
  const isBox = rule.type === 'boolean' && !options
  const shared = {
    id,
    name,
    required: rule.required && !isBox,
    'aria-invalid': error ? true : undefined,
    'aria-describedby': [shownHint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(' ') || undefined,
    'data-extra': isExtra,
    ...more,
  }
  return (
    <div className={isBox ? 'field box' : 'field'}>
      {isBox && <input type="checkbox" {...shared} defaultChecked={value === true} />}
      <label className="label" htmlFor={id}>
        {label}
      </label>
      {!isBox && (
        <Control rule={rule} as={as} choices={choices} isOpen={isOpen} none={none} value={value} shared={shared} />
      )}
      {isClearable && (
        <Button
          variant="quiet"
          className="clear-field"
          aria-label={text.clearField(label)}
          onClick={() => clearField(document.getElementById(id))}
        >
          {text.clear}
        </Button>
      )}
      {shownHint && (
        <p className="hint" id={`${id}-hint`}>
          {shownHint}
        </p>
      )}
      {error && (
        <p className="field-error" id={`${id}-error`}>
          {error}
        </p>
      )}
    </div>
  )
}

function clearField(field: HTMLElement | null): void {
  if (!(field instanceof HTMLInputElement || field instanceof HTMLTextAreaElement)) return
  field.value = ''
  field.dispatchEvent(new InputEvent('input', { bubbles: true }))
  field.focus()
}

interface ControlProps {
  readonly rule: FieldRules
  readonly as: FieldProps['as'] | undefined
  readonly choices: readonly (readonly [string, string])[] | undefined
  readonly isOpen: boolean
  readonly none: string | undefined
  readonly value: unknown
  readonly shared: Readonly<Record<string, unknown>>
}

function Control({ rule, as, choices, isOpen, none = text.none, value, shared }: ControlProps) {
  const { type, minLength, maxLength, pattern, minimum, maximum, required } = rule
  if (choices) {
    return (
      <select
        {...shared}
        defaultValue={String(value ?? '')}
        size={isOpen ? Math.min(Math.max(choices.length, 2), MAX_SHOWN) : undefined}
        onKeyDown={isOpen ? submitOnEnter : undefined}
      >
        {!required && <option value="">{none}</option>}
        {choices.map(([option, title]) => (
          <option key={option} value={option}>
            {title}
          </option>
        ))}
      </select>
    )
  }
  if (type === 'array') return <textarea {...shared} rows={3} defaultValue={((value ?? []) as string[]).join('\n')} />
  if (type === 'object' || type === 'json') {
    return <textarea {...shared} rows={5} className="mono" spellCheck={false} defaultValue={jsonText(value)} />
  }
  if (type === 'integer' || type === 'number') {
    const step = type === 'integer' ? 1 : 'any'
    return <input {...shared} type="number" min={minimum} max={maximum} step={step} defaultValue={value as number} />
  }
  const limits = { minLength, maxLength, defaultValue: value as string | undefined }
  if (as === 'textarea' || (!as && (maxLength ?? 0) > 300)) return <textarea {...shared} {...limits} rows={3} />
  return <input {...shared} {...limits} type={as ?? 'text'} pattern={pattern} autoComplete="off" />
}

/** Browsers differ: some do not submit a form by `Enter` in a list. */
function submitOnEnter(event: KeyboardEvent<HTMLSelectElement>): void {
  if (event.key !== 'Enter') return
  event.preventDefault()
  event.currentTarget.form?.requestSubmit()
}

const jsonText = (value: unknown): string =>
  value === undefined ||
  value === null ||
  (typeof value === 'object' && value !== null && Object.keys(value).length === 0)
    ? ''
    : JSON.stringify(value, undefined, 2)

/** The body of the fields. An empty optional field is left out. */
function bodyOf(form: HTMLFormElement, rules: Context['rules'], omitsEmpty: boolean) {
  const body: Record<string, unknown> = {}
  const broken: Record<string, string> = {}
  for (const element of form.elements) {
    const { name, value, checked, type, dataset } = element as HTMLInputElement
    const rule = rules[name] ?? (dataset.extra ? {} : undefined)
    if (!name || !rule) continue
    if (type === 'checkbox') body[name] = checked
    else if (rule.type === 'array') {
      const lines = value.split('\n').flatMap((line) => line.trim() || [])
      if (lines.length > 0 || rule.required || !omitsEmpty) body[name] = lines
    } else if (rule.type === 'object' || (rule.type === 'json' && value !== '')) {
      try {
        body[name] = JSON.parse(value || '{}')
      } catch {
        broken[name] = rule.type === 'json' ? text.noJsonValue : text.noJson
      }
    } else if (value !== '') body[name] = parsedValue(rule, value)
  }
  return { body, broken }
}

function parsedValue({ type }: FieldRules, value: string): unknown {
  if (type === 'boolean') return value === 'true'
  return type === 'integer' || type === 'number' ? Number(value) : value
}
