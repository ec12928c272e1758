#include "base/own_path.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/own_files.h"
#include "support/other_user.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"
#include "support/user_namespace.h"

namespace ffdl::base {
namespace {

TEST(OwnPath, AFolderThatOthersMayWriteToNeedsTheStickyBit) {
  const TempFolder temp;
  const std::string parent = temp.file("parent");
  const std::string folder = parent + "/a/b";
  ASSERT_OK(make_own_folder(folder));
  const std::string expected = "of the folder '" + parent + "' on the way to it lets other users";
  for (const mode_t mode : {0777U, 0757U}) {
    ASSERT_EQ(chmod(parent.c_str(), mode), 0);
    EXPECT_FAILS(check_parents(folder), StatusCode::kInvalidArgument, expected);
    EXPECT_FAILS(make_own_folder(folder), StatusCode::kInvalidArgument, expected);
    EXPECT_FAILS(open_own_folder(parent + "/a"), StatusCode::kInvalidArgument, expected);
    EXPECT_FAILS(read_own_file(folder + "/f"), StatusCode::kInvalidArgument, expected);
    EXPECT_FAILS(make_own_folder(parent + "/new/c"), StatusCode::kInvalidArgument, expected);
    EXPECT_FALSE(std::filesystem::exists(parent + "/new"));
  }
  for (const mode_t mode : {01777U, 0755U, 0700U}) {
    ASSERT_EQ(chmod(parent.c_str(), mode), 0);
    EXPECT_OK(make_own_folder(folder));
  }
  EXPECT_OK(check_parents("/"));
  EXPECT_OK(check_parents("relative"));
}

TEST(OwnPath, AGroupIsOtherUsersUnlessItIsTheUsersOwn) {
  FFDL_SKIP_UNLESS_OTHER_USER();  // needed to give the folder to another group
  const TempFolder temp;
  ASSERT_OK(make_own_folder(temp.file("parent/a")));
  ASSERT_EQ(chmod(temp.file("parent").c_str(), 0775), 0);
  EXPECT_OK(check_parents(temp.file("parent/a")));
  ASSERT_EQ(chown(temp.file("parent").c_str(), 0, testing::kOtherUser), 0);
  EXPECT_FAILS(check_parents(temp.file("parent/a")), StatusCode::kInvalidArgument, "mode 0775");
}

TEST(OwnPath, LinksOnTheWayAreFollowedToWhereTheyLead) {
  const TempFolder temp;
  ASSERT_OK(make_own_folder(temp.file("safe/a")));
  ASSERT_OK(make_own_folder(temp.file("open/a")));
  ASSERT_EQ(chmod(temp.file("open").c_str(), 0777), 0);
  ASSERT_EQ(symlink(temp.file("safe").c_str(), temp.file("to_safe").c_str()), 0);
  ASSERT_EQ(symlink("safe/../open", temp.file("to_open").c_str()), 0);
  ASSERT_EQ(symlink("loop", temp.file("loop").c_str()), 0);
  EXPECT_OK(make_own_folder(temp.file("to_safe/a")));
  EXPECT_OK(make_own_folder(temp.file("to_safe/b/c")));
  EXPECT_FAILS(make_own_folder(temp.file("to_open/a")), StatusCode::kInvalidArgument,
               "'" + temp.file("open") + "' on the way");
  EXPECT_FAILS(make_own_folder(temp.file("loop/a")), StatusCode::kUnavailable, "symbolic links");
}

// Models a container without privileges, where files of the host's root have no known owner.
TEST(OwnPath, InAUserNamespaceRootOfTheHostIsTrusted) {
  FFDL_SKIP_UNLESS_OTHER_USER();
  const TempFolder temp;
  ASSERT_EQ(chmod(temp.path().c_str(), 0755), 0);
  const int code = testing::as_other_user([&] {
    if (!testing::enter_user_namespace(1000)) return 2;
    return check_parents(temp.file("a")).ok() ? 0 : 1;
  });
  if (code == 2) GTEST_SKIP() << "this host lets no user make a user namespace";
  EXPECT_EQ(code, 0);
}

// The owner can replace a folder on the path at any time.
TEST(OwnPath, AParentOrLinkOfAnotherUserIsRefused) {
  FFDL_SKIP_UNLESS_OTHER_USER();
  const TempFolder temp;
  ASSERT_EQ(chmod(temp.path().c_str(), 01777), 0);
  ASSERT_OK(make_own_folder(temp.file("ours/a")));
  const std::string theirs = temp.file("theirs");
  ASSERT_EQ(testing::as_other_user([&] {
              const bool made = mkdir(theirs.c_str(), 0755) == 0;
              return made && symlink("ours", temp.file("link").c_str()) == 0 ? 0 : 1;
            }),
            0);
  EXPECT_FAILS(make_own_folder(theirs + "/a"), StatusCode::kInvalidArgument,
               "the folder '" + theirs + "' on the way to it belongs to user 65534");
  EXPECT_FALSE(std::filesystem::exists(theirs + "/a"));
  ASSERT_EQ(mkdir((theirs + "/a").c_str(), 0700), 0);  // as an earlier version created it
  EXPECT_FAILS(replace_own_file(theirs + "/a/f", ""), StatusCode::kInvalidArgument,
               "belongs to user 65534");
  EXPECT_FAILS(open_own_folder(temp.file("link/a")), StatusCode::kInvalidArgument,
               "the link '" + temp.file("link") + "' on the way to it belongs to user 65534");
  // The other user may use its own folder.
  ASSERT_EQ(testing::as_other_user([&] { return check_parents(theirs + "/b/c").ok() ? 0 : 1; }), 0);
}

}  // namespace
}  // namespace ffdl::base
