/** Runs the suite of adopted shared tables for the most frequent type of a tenant column. */
import { rowAdoptionSuite } from './suite.fixture.ts'

rowAdoptionSuite('uuid')
