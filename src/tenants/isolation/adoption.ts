/**
 * The port for the adoption of existing storage: a part of the port in driver.ts. An adoption changes owners and rights
 * and copies no row.
 *
 *   plan ──► adopt: one transaction at the server ──► settle: whether it was committed ──► … ──► release
 *
 * The transaction stores a record at the server: the id of the adoption, and the owners and rights of before. So a
 * later process can determine whether a killed one has committed, and a release restores what the record contains.
 */
import { defineError, type TenancyError } from '../../kernel/base/errors.ts'
import type { StorageLocation } from './location.ts'

/** The location is that of the tenant after the adoption: its locator is the name of the existing storage. */
export interface AdoptionRequest {
  readonly location: StorageLocation
  /** Schema of the application in an existing database; default `public`. */
  readonly schema?: string | undefined
  /** Names of the host's migrations whose result the storage has, in order. */
  readonly baseline: readonly string[]
  /** Objects of differences (`Difference.object`) that the operator accepts. */
  readonly acceptDifferences: readonly string[]
}

/** One object of the storage that differs from the result of the migrations. */
export interface Difference {
  /** `column orders.note` */
  readonly object: string
  /** Definition that the migrations create; null if they do not create the object. */
  readonly expected: string | null
  /** Definition in the storage; null if the object does not exist there. */
  readonly actual: string | null
  readonly isAccepted: boolean
}

export interface StoragePlan {
  /** Reasons why the storage cannot be adopted; empty if it can. */
  readonly reasons: readonly string[]
  readonly warnings: readonly string[]
  readonly differences: readonly Difference[]
  /** All statements of the adoption, in order, without the records of Tenantry. */
  readonly statements: readonly string[]
  /** Different for each request and each state of the catalog. */
  readonly digest: string
}

export interface AdoptOptions {
  /** Id of this adoption, for the record at the server. */
  readonly adoptionId: string
  /** That of the plan that was shown. */
  readonly digest: string
  /**
   * Throws if another process has abandoned the adoption. Called with the lock of the storage, which `settle` waits
   * for: a late process adopts nothing.
   */
  readonly assertNotAbandoned: () => Promise<void>
}

export interface DriverAdoption {
  /** Reads only. */
  plan(request: AdoptionRequest): Promise<StoragePlan>
  /** Throws `E_NOT_ADOPTABLE` with all reasons, also if the catalog differs from that of the plan. */
  adopt(request: AdoptionRequest, options: AdoptOptions): Promise<void>
  /** Calls `decide` with the lock of the storage, so no transaction of `adopt` is open meanwhile. */
  settle(location: StorageLocation, adoptionId: string, decide: (isAdopted: boolean) => Promise<void>): Promise<void>
  /**
   * Restores owners and rights from the record, and removes the record. Returns the statements. Safe to repeat: without
   * the record, it does nothing.
   */
  release(location: StorageLocation): Promise<readonly string[]>
}

/** A table with the tenants of a former application. No SQL of a request is executed. */
export interface TenantSource {
  /** Its name, with or without its schema: `orgs`, `internal.orgs`. Default schema: that of the tables. */
  readonly table: string
  /** The column with the ids. */
  readonly id: string
  /** The column with the names; absent: the ids are the names. */
  readonly name?: string | undefined
}

export interface RowAdoptionRequest {
  readonly placement: string
  /** Absent: each value of the tenant column is a tenant. */
  readonly from?: TenantSource | undefined
  readonly baseline: readonly string[]
  readonly acceptDifferences: readonly string[]
}

export interface AdoptedTenant {
  readonly id: string
  readonly name: string
}

export interface RowPlan extends StoragePlan {
  /** The schema of the tables. */
  readonly schema: string
  readonly tenants: readonly AdoptedTenant[]
  /** Locks of the statements until their commit, by table. */
  readonly locks: readonly string[]
}

/** Adopts the tables that the tenants of a placement share. */
export interface DriverRowAdoption {
  /** Reads only. */
  plan(request: RowAdoptionRequest): Promise<RowPlan>
  /** Throws `E_NOT_ADOPTABLE` with all reasons, also if catalog or tenants differ from those of the plan. */
  adopt(request: RowAdoptionRequest, options: AdoptOptions): Promise<void>
  /** As that of `DriverAdoption`. */
  settle(placement: string, adoptionId: string, decide: (isAdopted: boolean) => Promise<void>): Promise<void>
  /** As that of `DriverAdoption`. All tenants lose access. Changes nothing after another adoption of the tables. */
  release(placement: string, adoptionId: string): Promise<readonly string[]>
}

/** The existing storage cannot become a tenant, or not by this plan. */
export const NotAdoptable = defineError('E_NOT_ADOPTABLE', 409, 'The storage cannot be adopted')

export const notAdoptable = (reasons: readonly string[]): TenancyError =>
  NotAdoptable(`The storage cannot be adopted: ${reasons.join('; ')}.`, { extras: { reasons } })
