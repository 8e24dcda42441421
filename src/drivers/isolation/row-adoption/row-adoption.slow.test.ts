/** Runs the suite of adopted shared tables for the other types of a tenant column. */
import { rowAdoptionSuite } from './suite.fixture.ts'

rowAdoptionSuite('text')
rowAdoptionSuite('integer')
rowAdoptionSuite('bigint')
