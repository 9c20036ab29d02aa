# minuet_clouds: generated clouds, for the tests and for `minuet run --synthetic`. Include this where
# the target is needed and the tests are not built.
if(NOT TARGET minuet_clouds)
  add_library(minuet_clouds STATIC ${CMAKE_CURRENT_LIST_DIR}/clouds.cc)
  target_include_directories(minuet_clouds PUBLIC ${CMAKE_CURRENT_LIST_DIR}/../..)
  target_link_libraries(minuet_clouds PRIVATE minuet_options)
  # A contracted multiply-add rounds once less: the clouds would differ between machines.
  target_compile_options(minuet_clouds PRIVATE -ffp-contract=off)
  minuet_optimize(minuet_clouds)  # every ray meets every house
endif()
