export default {
  serverExternalPackages: ['tenantry'],
  turbopack: { root: '/' }, // packages are linked from other folders
}
