include(CMakePackageConfigHelpers)
configure_file(cmake/version.h.in "${PROJECT_BINARY_DIR}/include/ffdl/version.h" @ONLY)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/ffdlConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
configure_package_config_file(cmake/ffdlConfig.cmake.in "${PROJECT_BINARY_DIR}/ffdlConfig.cmake"
                              INSTALL_DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/ffdl")

install(TARGETS ffdl EXPORT ffdlTargets COMPONENT ffdl)
install(DIRECTORY include/ffdl "${PROJECT_BINARY_DIR}/include/ffdl" TYPE INCLUDE COMPONENT ffdl)
install(EXPORT ffdlTargets NAMESPACE ffdl:: DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/ffdl" COMPONENT ffdl)
install(FILES "${PROJECT_BINARY_DIR}/ffdlConfig.cmake" "${PROJECT_BINARY_DIR}/ffdlConfigVersion.cmake"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/ffdl" COMPONENT ffdl)
