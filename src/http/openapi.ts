/** Generates the OpenAPI 3.1 document of the operations. */
import { z } from 'zod'
import {
  createDocument,
  type ZodOpenApiObject,
  type ZodOpenApiPathsObject,
  type ZodOpenApiResponsesObject,
} from 'zod-openapi'
import { IdempotencyInProgress, IdempotencyMismatch, IdempotencyResponseLost } from '../kernel/api/idempotency.ts'
import type { AnyOperation } from '../kernel/api/operation.ts'
import { DependencyUnavailable, type ErrorType, InvalidRequest, NotFound } from '../kernel/base/errors.ts'
import { VERSION } from '../tenancy/version.ts'
import { TooManyAttempts } from './failed-sign-ins.ts'
import { HAS_BODY } from './input.ts'
import { withSharedComponents } from './openapi-components.ts'
import {
  ChangedMeanwhile,
  DeadlineExceeded,
  Forbidden,
  InvalidJson,
  PayloadTooLarge,
  PROBLEM_TYPE,
  Unauthorized,
  UnsupportedMediaType,
} from './problem.ts'

const Problem = z
  .looseObject({
    type: z.string(),
    title: z.string(),
    status: z.number().int(),
    detail: z.string(),
    code: z.string().meta({ description: 'Stable error code for programs' }),
    requestId: z.string().nullable(),
    errors: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
  })
  .meta({ id: 'Problem', description: 'RFC 9457' })

const header = (description: string, schema: { type: 'string' | 'integer' } = { type: 'string' }) => ({
  schema,
  description,
})
const REQUEST_ID = { 'x-request-id': header('Id of the request, also in log lines and audit entries') }
const LOCATION = { Location: header('Path of the created resource') }
const ETAG = { ETag: header('Strong ETag of the state in the body') }
const APPLIED = { 'Preference-Applied': header('`wait=N` if the response was delayed for the job') }
const REPLAYED = {
  'Idempotency-Replayed': header('`true` if this is the response to an earlier request with this key'),
}
const RETRY_AFTER = { 'Retry-After': header('Seconds until the client should retry', { type: 'integer' }) }

const TEXTS: Record<number, string> = {
  200: 'Done',
  201: 'Created',
  202: 'Accepted; a job completes the operation',
  204: 'Done, without a response body',
  304: 'An ETag in `If-None-Match` matches the present state',
  503: 'Unavailable',
}

export function openApiDocument(
  operations: readonly AnyOperation[],
  prefix: string,
): ReturnType<typeof createDocument> {
  const paths: ZodOpenApiPathsObject = {}
  for (const operation of operations) {
    const path = prefix + operation.path
    paths[path] = { ...paths[path], [operation.method.toLowerCase()]: described(operation) }
  }
  const document: ZodOpenApiObject = {
    openapi: '3.1.0',
    info: {
      title: 'Tenantry admin API',
      version: VERSION,
      description: 'Administers the tenants of a multi-tenant SaaS. Errors are RFC 9457 problems with a stable `code`.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/' }],
    security: [{ adminToken: [] }],
    tags: [...new Set(operations.map(tagOf))].map((name) => ({ name })),
    paths,
    components: {
      securitySchemes: { adminToken: { type: 'apiKey', in: 'header', name: 'x-admin-token' } },
      schemas: { Problem },
    },
  }
  return withSharedComponents(createDocument(document))
}

function described(operation: AnyOperation): ZodOpenApiPathsObject[string]['get'] & object {
  const isPost = operation.method === 'POST'
  const hasWait = operation.settled !== undefined
  const headers = z.object({
    ...(isPost ? { 'Idempotency-Key': z.string().max(255).optional() } : {}),
    ...(isConditional(operation)
      ? {
          'If-Match': z.string().optional().meta({
            description:
              'One or more ETags, or `*` for any. The change is made only if the present state matches one of them',
          }),
        }
      : {}),
    ...(hasWait
      ? {
          Prefer: z
            .string()
            .optional()
            .meta({ description: '`wait=N` waits up to N seconds, at most 30, for the job' }),
        }
      : {}),
  })
  return {
    operationId: operation.name,
    tags: [tagOf(operation)],
    summary: operation.summary,
    ...(operation.description ? { description: operation.description } : {}),
    requestParams: {
      ...(operation.params ? { path: operation.params } : {}),
      ...(operation.query ? { query: operation.query } : {}),
      ...(Object.keys(headers.shape).length > 0 ? { header: headers } : {}),
    },
    ...(operation.body
      ? {
          requestBody: {
            required: !operation.bodyOptional,
            content: { 'application/json': { schema: operation.body } },
          },
        }
      : {}),
    responses: { ...successes(operation), ...failures(operation) },
    // Members that the response to a repeated `Idempotency-Key` does not contain.
    ...(operation.shownOnce ? { 'x-shown-once': operation.shownOnce } : {}),
  }
}

function successes(operation: AnyOperation): ZodOpenApiResponsesObject {
  const isEmpty = operation.reply instanceof z.ZodVoid
  const own = isEmpty ? 204 : (operation.status ?? 200)
  const whenWaited = operation.settled && own === 202 ? [200] : [] // the job has ended before the response
  const statuses = [own, ...(operation.alsoStatus ?? []), ...whenWaited]
  const streams = Object.fromEntries(
    (operation.streams ?? []).map((type) => [type, { schema: { type: 'string' as const } }]),
  )
  return Object.fromEntries(
    statuses.map((status) => [
      String(status),
      {
        description: TEXTS[status] ?? 'Done',
        headers: {
          ...REQUEST_ID,
          ...(status === 201 || own === 202 ? LOCATION : {}),
          ...(operation.resource && !isEmpty ? ETAG : {}),
          ...(operation.settled ? APPLIED : {}),
          ...(operation.method === 'POST' ? REPLAYED : {}),
          ...headersOf(operation.replyHeaders),
        },
        ...(isEmpty || status === 304
          ? {}
          : { content: { 'application/json': { schema: operation.reply }, ...streams } }),
      },
    ]),
  )
}

function failures(operation: AnyOperation): ZodOpenApiResponsesObject {
  const { jobErrors = [] } = operation
  const errors: ErrorType[] = [Unauthorized, TooManyAttempts, InvalidRequest, ...(operation.errors ?? []), ...jobErrors]
  if (operation.scope !== 'any') errors.push(Forbidden)
  if (Object.keys(operation.params?.shape ?? {}).length > 0) errors.push(NotFound)
  // Also without a body schema: an unexpected body is read before it is rejected.
  if (HAS_BODY.has(operation.method)) errors.push(InvalidJson, PayloadTooLarge, UnsupportedMediaType)
  if (isConditional(operation)) errors.push(ChangedMeanwhile)
  if (operation.method === 'POST') errors.push(IdempotencyMismatch, IdempotencyInProgress, IdempotencyResponseLost)
  const byStatus = Map.groupBy(new Set(errors), ({ status }) => status)
  const problem = { [PROBLEM_TYPE]: { schema: Problem } }
  // An error of the handler is stored, an earlier rejection is not.
  const ownStatuses = new Set([...(operation.errors ?? []), ...jobErrors].map(({ status }) => status))
  const jobStatuses = new Set(jobErrors.map(({ status }) => status))
  const isReplayed = (status: number) => operation.method === 'POST' && status < 500 && ownStatuses.has(status)
  const declared = [...byStatus].map(([status, types]) => [
    String(status),
    {
      description: types.map(({ code }) => `\`${code}\``).join(', '),
      'x-error-codes': types.map(({ code }) => code),
      headers: {
        ...REQUEST_ID,
        ...(jobStatuses.has(status) ? { ...LOCATION, ...APPLIED } : {}),
        ...(isReplayed(status) ? REPLAYED : {}),
        ...Object.assign({}, ...types.map(({ headers }) => headersOf(headers))),
      },
      content: contentOf(types) ?? problem,
    },
  ])
  const types = [DependencyUnavailable, DeadlineExceeded, ...(byStatus.get(503) ?? [])]
  const unavailable = {
    description: `${types.map(({ code }) => `\`${code}\``).join(', ')}, with Retry-After`,
    'x-error-codes': types.map(({ code }) => code),
    headers: { ...REQUEST_ID, ...RETRY_AFTER, ...(jobErrors.length > 0 ? { ...LOCATION, ...APPLIED } : {}) },
    content: contentOf(types) ?? problem,
  }
  return Object.fromEntries([...declared, ...(operation.alsoStatus?.includes(503) ? [] : [['503', unavailable]])])
}

/** Whether the operation compares `If-Match`. */
const isConditional = ({ resource, method }: AnyOperation): boolean => resource !== undefined && method !== 'GET'

/** The schema of errors with their own members; undefined if a plain problem describes all errors. */
function contentOf(types: readonly ErrorType[]) {
  if (types.every(({ members }) => !members)) return undefined
  const [schema, ...more] = new Set(types.map(problemOf))
  return {
    [PROBLEM_TYPE]: { schema: more.length === 0 ? (schema as z.ZodType) : z.union([schema as z.ZodType, ...more]) },
  }
}

function problemOf(type: ErrorType): z.ZodType {
  if (!type.members) return Problem
  const schema = problems.get(type) ?? Problem.extend(type.members).meta({ id: `Problem_${type.code}` })
  problems.set(type, schema)
  return schema
}

/** The values without duplicates. */
const problems = new WeakMap<ErrorType, z.ZodType>()

const headersOf = (headers: Readonly<Record<string, string>> = {}) =>
  Object.fromEntries(
    Object.entries(headers).map(([name, description]) => [name, { description, schema: { type: 'string' as const } }]),
  )

const tagOf = ({ name }: AnyOperation): string => name.split('.')[0] ?? name
