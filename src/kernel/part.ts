/** Names the type of a part's service once, for its operations, commands, jobs and listeners. */
import type { z } from 'zod'
import { type Command, command } from './api/commands.ts'
import { type AnyOperation, type Operation, operation, type Resource, resource } from './api/operation.ts'
import {
  type EventOf,
  type EventType,
  type Listener,
  on,
  onAny,
  type When,
  type WideListener,
} from './events/events.ts'
import { type Attempt, handles, type Job, type JobType } from './jobs/jobs.ts'

/** Declarations whose functions receive this service first. */
export interface Declarations<Service> {
  operation<
    Params extends z.ZodObject = z.ZodObject<{}>,
    Query extends z.ZodObject = z.ZodObject<{}>,
    Body extends z.ZodType = z.ZodVoid,
    ReplySchema extends z.ZodType = z.ZodVoid,
  >(definition: Operation<Service, Params, Query, Body, ReplySchema>): AnyOperation<Service>
  resource<Params, State extends z.ZodType>(
    definition: Resource<Service, Params, State>,
  ): Resource<Service, Params, State>
  command(definition: Command<Service>): Command<Service>
  job<Type extends JobType>(
    type: Type,
    handle: (service: Service, data: z.output<Type['data']>, attempt: Attempt) => Promise<void>,
  ): Job<Service>
  on<Type extends EventType>(
    type: Type,
    when: When,
    handle: (service: Service, event: EventOf<Type>) => void | Promise<void>,
  ): Listener<Service>
  onAny(
    when: When,
    handle: (service: Service, type: EventType, event: Record<string, unknown>) => void | Promise<void>,
  ): WideListener<Service>
}

/**
 * @example
 *   const { operation, command } = part<Announcements>()
 */
export const part = <Service>(): Declarations<Service> => ({ operation, resource, command, job: handles, on, onAny })
