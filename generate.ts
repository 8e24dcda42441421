/**
 * `npm run generate`: what is written from the code and committed, so that a reader and a review see it change: the OpenAPI
 * document, the schema of the backoffice, the reference, the README's examples. test/generated.test.ts says when one is stale.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { z } from 'zod'
import * as commandErrors from './src/cli/exit-codes.ts'
import { groups } from './src/cli/program.ts'
import { commandsReference } from './src/cli/reference.ts'
import * as hostErrors from './src/http/allowed-hosts.ts'
import * as signInErrors from './src/http/failed-sign-ins.ts'
import * as httpErrors from './src/http/problem.ts'
import * as idempotencyErrors from './src/kernel/api/idempotency.ts'
import type { AnyOperation } from './src/kernel/api/operation.ts'
import type { ErrorType } from './src/kernel/base/errors.ts'
import * as kernelErrors from './src/kernel/base/errors.ts'
import * as doctorErrors from './src/kernel/doctor/doctor.ts'
import { type Catalogue, catalogueOf, openApiOf } from './src/service/catalogue.ts'
import { satellites } from './src/service/main.ts'
import { Environment, File } from './src/service/settings.ts'
import * as isolationErrors from './src/tenants/isolation/driver.ts'
import * as migrationErrors from './src/tenants/migrations/errors.ts'
import * as tenantErrors from './src/tenants/tenant/errors.ts'
import * as archiveErrors from './src/tenants/transfers/archive/port.ts'
import * as transferErrors from './src/tenants/transfers/requests/errors.ts'

const ROOT = import.meta.dirname
const HEAD = '<!-- made by `npm run generate`; edit the code instead -->\n'

/** Every generated file by its path, with what it should hold now. */
export function generated(): Map<string, string> {
  const catalogue = catalogueOf(satellites)
  return new Map([
    ['openapi.json', `${JSON.stringify(openApiOf(catalogue), null, 2)}\n`],
    ['schema.sql', schema(catalogue)],
    ['docs/reference/operations.md', operationsPage(catalogue.operations)],
    ['docs/reference/events.md', eventsPage(catalogue)],
    ['docs/reference/errors.md', errorsPage(catalogue)],
    ['docs/reference/commands.md', `${HEAD}\n# Commands\n\n${commandsReference(groups)}\n`],
    ['docs/reference/settings.md', settingsPage()],
    ['README.md', withExamples(readFileSync(join(ROOT, 'README.md'), 'utf8'))],
  ])
}

function schema({ tables }: Catalogue): string {
  const parts = tables.flatMap(({ part, migrations }) =>
    migrations.map(({ name, up }) => `-- ${part}/${name}\n${undent(up)}\n`),
  )
  return `-- made by \`npm run generate\`: every migration of the backoffice, in order; all of it in the schema multitenancy\n\n${parts.join('\n')}`
}

function operationsPage(operations: readonly AnyOperation[]): string {
  const rows = operations.map((operation) => {
    const {
      name,
      method,
      path,
      summary,
      status,
      alsoStatus = [],
      reply,
      streams = [],
      errors = [],
      jobErrors = [],
      scope,
    } = operation
    const statuses = [reply instanceof z.ZodVoid ? 204 : (status ?? 200), ...alsoStatus]
    const needed = scope ?? (method === 'GET' ? 'read' : 'admin')
    const codes = [...errors, ...jobErrors].map(({ code }) => code)
    return row(`\`${method} ${path}\``, `\`${name}\``, summary, needed, statuses.join(', '), code(streams), code(codes))
  })
  return page(
    'Operations',
    'Paths are below the prefix (`/admin/multitenancy`). Shapes are in `openapi.json`. A token of the scope `admin` may call all of them.',
    [
      row(
        'path',
        'operation',
        '',
        'scope',
        'answers',
        'streams, by `Accept`',
        'errors, beside those of every operation',
      ),
      row(...Array(7).fill('---')),
      ...rows,
    ],
  )
}

function eventsPage({ events, jobs }: Catalogue): string {
  const eventRows = events.map(
    ({ name, summary, own }) =>
      `| \`${name}\` | ${summary} | ${Object.keys(own.shape)
        .map((key) => `\`${key}\``)
        .join(', ')} |`,
  )
  const jobRows = jobs.map(({ name, summary, retries = 3 }) => `| \`tenantry.${name}\` | ${summary} | ${retries} |`)
  return page('Events and jobs', 'Every event also has `id` (UUIDv7), `occurredAt` and `requestId`.', [
    '| event | when | members |',
    '|---|---|---|',
    ...eventRows,
    '',
    '| job | what it does | retries |',
    '|---|---|---|',
    ...jobRows,
  ])
}

function errorsPage({ operations, errors }: Catalogue): string {
  const declared = [
    ...errorsOf(
      kernelErrors,
      idempotencyErrors,
      httpErrors,
      hostErrors,
      signInErrors,
      tenantErrors,
      isolationErrors,
      migrationErrors,
      archiveErrors,
      transferErrors,
    ),
    ...operations.flatMap(({ errors = [] }) => errors),
    ...errors,
  ]
  // The commands say E_INTERNAL as HTTP does, so it is the service's too.
  const [internal, own] = [
    [commandErrors.Failed],
    errorsOf(commandErrors, doctorErrors).filter((one) => one !== commandErrors.Failed),
  ]
  const byCode = new Map([...declared, ...internal].map((error) => [error.code, error]))
  const rows = [...byCode.values()]
    .toSorted((a, b) => (a.code < b.code ? -1 : 1))
    .map((error) => row(`\`${error.code}\``, error.status, error.title, commandErrors.exitCodeOf(error(''))))
  const ownRows = own
    .toSorted((a, b) => (a.code < b.code ? -1 : 1))
    .map((error) => row(`\`${error.code}\``, error.title, commandErrors.exitCodeOf(error(''))))
  return page('Error codes', 'Errors are RFC 9457 problems; programs look at `code`, which is stable.', [
    row('code', 'status', 'title', 'exit code of a command'),
    row(...Array(4).fill('---')),
    ...rows,
    '',
    'Commands alone say, on standard error:',
    '',
    row('code', 'title', 'exit code'),
    row(...Array(3).fill('---')),
    ...ownRows,
  ])
}

/** The kinds of errors that modules declare. */
const errorsOf = (...modules: readonly object[]): ErrorType[] =>
  modules.flatMap((module) => Object.values(module)).filter(isErrorType)

const isErrorType = (value: unknown): value is ErrorType =>
  typeof value === 'function' && 'matches' in value && 'code' in value

function settingsPage(): string {
  const variables = Object.entries(propertiesOf(Environment)).map(([name, schema]) =>
    row(`\`${name}\``, defaultAt(Environment.parse({}), [name]), schema.description ?? ''),
  )
  const keys = Object.entries(propertiesOf(File)).flatMap(([name, schema]) => keyRows([name], schema))
  return page('Settings', 'The environment wins over the file. docs/operating.md says how they are used.', [
    row('variable', 'default', ''),
    row(...Array(3).fill('---')),
    ...variables,
    '',
    '`tenantry.config.ts`, `.js` or `.json`:',
    '',
    row('key', 'type', 'default', ''),
    row(...Array(4).fill('---')),
    ...keys,
  ])
}

type Schema = z.core.JSONSchema.BaseSchema

const propertiesOf = (schema: z.ZodObject): Record<string, Schema> =>
  z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }).properties as Record<string, Schema>

/** A row for the key, where it has something to say, and rows for what is inside, which has defaults even where it is optional. */
function keyRows(path: readonly string[], schema: Schema): string[] {
  const { properties = {}, additionalProperties, items, description = '' } = schema
  const inside = [
    ...Object.entries(properties),
    ...(isObject(additionalProperties) ? [['<name>', additionalProperties] as const] : []),
    ...(isObject(items) ? [['<n>', items] as const] : []),
  ].filter(([, one]) => isObject(one))
  const value = defaultAt(File.parse({}), path) || shown(schema.default)
  const own = description && row(`\`${path.join('.')}\``, typeOf(schema), value, description)
  return [...(own ? [own] : []), ...inside.flatMap(([name, one]) => keyRows([...path, name], one as Schema))]
}

function typeOf({ type, enum: values, anyOf, items }: Schema): string {
  if (values) return code(values.map(String))
  if (anyOf) return anyOf.map((one) => typeOf(one as Schema)).join(' or ')
  if (type === 'array' && isObject(items)) return `array of ${typeOf(items as Schema)}s`
  return typeof type === 'string' ? type : 'function'
}

const defaultAt = (defaults: unknown, path: readonly string[]): string =>
  shown(
    path.reduce<unknown>((at, name) => (isObject(at) ? (at as Record<string, unknown>)[name] : undefined), defaults),
  )

/** As JSON; nothing where there is nothing, or where the keys inside have rows of their own. */
function shown(value: unknown): string {
  if (value === undefined || String(value) === '' || isObject(value)) return ''
  return `\`${typeof value === 'string' ? value : JSON.stringify(value)}\``
}

const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null && !Array.isArray(value)

const row = (...cells: readonly unknown[]): string => `| ${cells.join(' | ')} |`

const code = (words: readonly string[]): string => words.map((word) => `\`${word}\``).join(' ')

const page = (title: string, intro: string, lines: readonly string[]): string =>
  `${HEAD}\n# ${title}\n\n${intro}\n\n${lines.join('\n')}\n`

/** Puts the files that `<!-- example: path -->` names into the code blocks below them. */
function withExamples(text: string): string {
  return text.replaceAll(/(<!-- example: (\S+) -->\n```(\w+)\n)[\s\S]*?```/g, (_, head: string, path: string) => {
    return `${head}${readFileSync(join(ROOT, path), 'utf8').trimEnd()}\n\`\`\``
  })
}

function undent(sql: string): string {
  const lines = sql.replace(/^\n+|\s+$/g, '').split('\n')
  const depth = Math.min(...lines.filter((line) => line.trim()).map((line) => /^ */.exec(line)?.[0].length ?? 0))
  return lines.map((line) => line.slice(depth)).join('\n')
}

if (import.meta.main) {
  for (const [path, text] of generated()) {
    mkdirSync(dirname(join(ROOT, path)), { recursive: true })
    writeFileSync(join(ROOT, path), text)
  }
}
